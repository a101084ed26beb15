//! Who answers: the order, another order by the session's owner, or one provider by its name.

use std::time::Duration;

use serde_json::{Value, json};
use testing::fake_text;

use crate::deltas::{Encoding, Transcript};
use crate::harness::{KINDS, Kind, Setup};
use crate::world::{World, question, time_passes};

/// The other kind, so that a fallback crosses from one API to the other.
fn other(kind: Kind) -> Kind {
    if kind == Kind::Ollama { Kind::OpenAi } else { Kind::Ollama }
}

async fn ask(world: &World, session: &Value, provider: Option<&str>) -> Transcript {
    let mut body = question(&world.session_with(session).await);
    body["provider"] = json!(provider);
    world.stream(Encoding::Ndjson, &body).await.all().await
}

/// Asks a model that falls silent when it has said so much, and waits for longer than it may be silent.
async fn ask_one_that_falls_silent(world: &World, said: usize) -> Transcript {
    let stream = world.ask(&world.session().await).await;
    world.until_said(&stream.prompt(), said).await;
    time_passes(Duration::from_secs(61)).await;
    stream.all().await
}

/// The models that were asked, in order.
fn asked(world: &World) -> Vec<String> {
    world.fake.chats().iter().filter_map(|seen| seen.model().map(str::to_owned)).collect()
}

#[tokio::test]
async fn the_next_provider_is_asked_as_long_as_nothing_was_streamed() {
    for kind in KINDS {
        for model in [
            "fake,silence=3600s",
            "fake,die=0",
            "fake,error=0",
            "fake,empty",
            "fake,status=500",
            "fake,status=429",
            "fake,status=400",
            "fake,status=401",
            "fake,status=403",
            "fake,status=404",
        ] {
            let setup =
                Setup::new().provider("first", kind, model).provider("second", other(kind), "fake,words");
            let world = setup.start().await;
            let answer = match model {
                "fake,silence=3600s" => ask_one_that_falls_silent(&world, 0).await,
                _ => ask(&world, &json!({}), None).await,
            };
            let done = answer.done("stop");
            assert_eq!((&done["provider"], &done["model"]), (&json!("second"), &json!("fake,words")));
            assert!(answer.text().starts_with("word0 word1 "), "{kind:?} {model}: {}", answer.text());
            assert_eq!(asked(&world), [model, "fake,words"]);
            world.until_calls_ended().await;
        }
    }
}

#[tokio::test]
async fn the_next_provider_is_asked_when_nobody_listens_at_the_first() {
    for kind in KINDS {
        let world =
            Setup::new().unreachable("first", kind).provider("second", other(kind), "fake").start().await;
        assert_eq!(ask(&world, &json!({}), None).await.done("stop")["provider"], "second");
    }
}

#[tokio::test]
async fn no_other_provider_is_asked_once_something_was_streamed() {
    for kind in KINDS {
        for (model, tokens, code) in [
            ("fake,die=5", 5, "provider_error"),
            ("fake,error=5", 5, "provider_error"),
            ("fake,stall=5", 5, "provider_timeout"),
            ("fake,reasoning=4,die=2", 0, "provider_error"),
            ("fake,reasoning=4,tokens=0", 0, "empty_answer"),
        ] {
            let setup = Setup::new().provider("first", kind, model).provider("second", other(kind), "fake");
            let world = setup.start().await;
            let answer = match model {
                "fake,stall=5" => ask_one_that_falls_silent(&world, 5).await,
                _ => ask(&world, &json!({}), None).await,
            };
            assert_eq!(answer.text(), fake_text(tokens), "{kind:?} {model}");
            answer.error(code, true);
            assert_eq!(asked(&world), [model]);
        }
    }
}

#[tokio::test]
async fn when_all_fail_the_last_one_counts_and_every_reason_is_told() {
    for (models, code, retryable) in [
        (["fake,status=503", "fake,status=401"], "provider_unavailable", false),
        (["fake,status=401", "fake,status=503"], "provider_unavailable", true),
        (["fake,status=503", "fake,empty"], "empty_answer", true),
        (["fake,empty", "fake,die=0"], "provider_unavailable", true),
    ] {
        let setup = Setup::new().provider("first", Kind::Ollama, models[0]);
        let world = setup.provider("second", Kind::OpenAi, models[1]).start().await;
        let answer = ask(&world, &json!({}), None).await;
        let message = answer.error(code, retryable)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("first: ") && message.contains("second: "), "{message}");
        assert_eq!(asked(&world), models);
    }
}

#[tokio::test]
async fn the_owner_of_a_session_chooses_the_order() {
    let setup = Setup::new()
        .provider("local", Kind::Ollama, "fake")
        .provider("remote", Kind::OpenAi, "fake")
        .unreachable("away", Kind::OpenAi)
        .order(&["local"])
        .owner_order("acme/*", &["away", "remote"])
        .owner_order("acme/wiki", &["local"]);
    let world = setup.start().await;
    for (session, provider) in [
        (json!({}), "local"),
        (json!({"owner": "somebody"}), "local"),
        (json!({"owner": "acme"}), "local"),
        (json!({"owner": "acme/wiki"}), "remote"),
        (json!({"owner": "acme/shop"}), "remote"),
    ] {
        assert_eq!(ask(&world, &session, None).await.done("stop")["provider"], provider, "{session}");
    }
}

#[tokio::test]
async fn a_provider_may_be_asked_by_its_name() {
    let setup =
        Setup::new().provider("local", Kind::Ollama, "fake").provider("remote", Kind::OpenAi, "fake,words");
    let world = setup.order(&["local"]).owner_order("acme/*", &["local"]).start().await;
    for name in ["local", "remote"] {
        let answer = ask(&world, &json!({"owner": "acme/wiki"}), Some(name)).await;
        assert_eq!(answer.done("stop")["provider"], name);
    }
}

#[tokio::test]
async fn a_provider_that_was_named_is_the_only_one_asked() {
    let setup =
        Setup::new().provider("local", Kind::Ollama, "fake").provider("bad", Kind::OpenAi, "fake,status=503");
    let world = setup.start().await;
    ask(&world, &json!({}), Some("bad")).await.error("provider_unavailable", true);
    assert_eq!(asked(&world), ["fake,status=503"]);
}

#[tokio::test]
async fn a_provider_that_is_not_configured_is_refused() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
    for name in ["remote", "", "LOCAL"] {
        let mut body = question(&session);
        body["provider"] = json!(name);
        let refusal = world.try_ask(&body).await.refusal(400, "invalid_request").await;
        let message = refusal["message"].as_str().unwrap();
        assert!(message.contains(&format!("{name:?}")) && message.contains("local"), "{message}");
    }
    assert_eq!(world.look_at_session(&session).await["promptCount"], 0);
}
