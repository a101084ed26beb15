//! Which provider answers: the default order, the order of the session's owner, or a selected one.

use std::time::Duration;

use serde_json::{Value, json};
use testing::fake_text;

use crate::support::builder::{PROVIDER_KINDS, ProviderKind, TestServerBuilder};
use crate::support::delta_stream::{Encoding, Transcript};
use crate::support::test_server::{TestServer, advance_time, question};

/// The other API, so that a fallback crosses from one to the other.
fn other(kind: ProviderKind) -> ProviderKind {
    if kind == ProviderKind::Ollama { ProviderKind::OpenAi } else { ProviderKind::Ollama }
}

async fn ask(server: &TestServer, session: &Value, provider: Option<&str>) -> Transcript {
    let mut body = question(&server.session_with(session).await);
    body["provider"] = json!(provider);
    server.stream(Encoding::Ndjson, &body).await.all().await
}

/// Asks a model that stalls after these tokens, and lets it time out.
async fn ask_stalling_model(server: &TestServer, tokens: usize) -> Transcript {
    let stream = server.ask(&server.session().await).await;
    server.wait_until_generated(&stream.prompt(), tokens).await;
    advance_time(Duration::from_secs(61)).await;
    stream.all().await
}

/// The models that were called, in order.
fn called(server: &TestServer) -> Vec<String> {
    server.fake.chats().iter().filter_map(|seen| seen.model().map(str::to_owned)).collect()
}

#[tokio::test]
async fn the_next_provider_is_called_before_the_first_token() {
    for kind in PROVIDER_KINDS {
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
            let builder = TestServerBuilder::new().provider("first", kind, model).provider(
                "second",
                other(kind),
                "fake,words",
            );
            let server = builder.start().await;
            let answer = match model {
                "fake,silence=3600s" => ask_stalling_model(&server, 0).await,
                _ => ask(&server, &json!({}), None).await,
            };
            let done = answer.done("stop");
            assert_eq!((&done["provider"], &done["model"]), (&json!("second"), &json!("fake,words")));
            assert!(answer.text().starts_with("word0 word1 "), "{kind:?} {model}: {}", answer.text());
            assert_eq!(called(&server), [model, "fake,words"]);
            server.wait_for_model_calls().await;
        }
    }
}

#[tokio::test]
async fn the_next_provider_is_called_when_the_first_is_unreachable() {
    for kind in PROVIDER_KINDS {
        let server = TestServerBuilder::new()
            .unreachable_provider("first", kind)
            .provider("second", other(kind), "fake")
            .start()
            .await;
        assert_eq!(ask(&server, &json!({}), None).await.done("stop")["provider"], "second");
    }
}

#[tokio::test]
async fn no_other_provider_is_called_after_the_first_token() {
    for kind in PROVIDER_KINDS {
        for (model, tokens, code) in [
            ("fake,die=5", 5, "provider_error"),
            ("fake,error=5", 5, "provider_error"),
            ("fake,stall=5", 5, "provider_timeout"),
            ("fake,reasoning=4,die=2", 0, "provider_error"),
            ("fake,reasoning=4,tokens=0", 0, "empty_answer"),
        ] {
            let builder = TestServerBuilder::new().provider("first", kind, model).provider(
                "second",
                other(kind),
                "fake",
            );
            let server = builder.start().await;
            let answer = match model {
                "fake,stall=5" => ask_stalling_model(&server, 5).await,
                _ => ask(&server, &json!({}), None).await,
            };
            assert_eq!(answer.text(), fake_text(tokens), "{kind:?} {model}");
            answer.error(code, true);
            assert_eq!(called(&server), [model]);
        }
    }
}

#[tokio::test]
async fn when_all_providers_fail_the_last_failure_counts_and_all_reasons_are_listed() {
    for (models, code, retryable) in [
        (["fake,status=503", "fake,status=401"], "provider_unavailable", false),
        (["fake,status=401", "fake,status=503"], "provider_unavailable", true),
        (["fake,status=503", "fake,empty"], "empty_answer", true),
        (["fake,empty", "fake,die=0"], "provider_unavailable", true),
    ] {
        let builder = TestServerBuilder::new().provider("first", ProviderKind::Ollama, models[0]);
        let server = builder.provider("second", ProviderKind::OpenAi, models[1]).start().await;
        let answer = ask(&server, &json!({}), None).await;
        let message = answer.error(code, retryable)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("first: ") && message.contains("second: "), "{message}");
        assert_eq!(called(&server), models);
    }
}

#[tokio::test]
async fn the_owner_of_a_session_chooses_the_order() {
    let builder = TestServerBuilder::new()
        .provider("local", ProviderKind::Ollama, "fake")
        .provider("remote", ProviderKind::OpenAi, "fake")
        .unreachable_provider("away", ProviderKind::OpenAi)
        .order(&["local"])
        .owner_order("acme/*", &["away", "remote"])
        .owner_order("acme/wiki", &["local"]);
    let server = builder.start().await;
    for (session, provider) in [
        (json!({}), "local"),
        (json!({"owner": "unmatched"}), "local"),
        (json!({"owner": "acme"}), "local"),
        (json!({"owner": "acme/wiki"}), "remote"),
        (json!({"owner": "acme/shop"}), "remote"),
    ] {
        assert_eq!(ask(&server, &session, None).await.done("stop")["provider"], provider, "{session}");
    }
}

#[tokio::test]
async fn a_provider_can_be_selected_by_name() {
    let builder = TestServerBuilder::new().provider("local", ProviderKind::Ollama, "fake").provider(
        "remote",
        ProviderKind::OpenAi,
        "fake,words",
    );
    let server = builder.order(&["local"]).owner_order("acme/*", &["local"]).start().await;
    for name in ["local", "remote"] {
        let answer = ask(&server, &json!({"owner": "acme/wiki"}), Some(name)).await;
        assert_eq!(answer.done("stop")["provider"], name);
    }
}

#[tokio::test]
async fn a_selected_provider_has_no_fallback() {
    let builder = TestServerBuilder::new().provider("local", ProviderKind::Ollama, "fake").provider(
        "bad",
        ProviderKind::OpenAi,
        "fake,status=503",
    );
    let server = builder.start().await;
    ask(&server, &json!({}), Some("bad")).await.error("provider_unavailable", true);
    assert_eq!(called(&server), ["fake,status=503"]);
}

#[tokio::test]
async fn an_unknown_provider_is_refused() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    for name in ["remote", "", "LOCAL"] {
        let mut body = question(&session);
        body["provider"] = json!(name);
        let error = server.try_ask(&body).await.error(400, "invalid_request").await;
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("{name:?}")) && message.contains("local"), "{message}");
    }
    assert_eq!(server.get_session(&session).await["promptCount"], 0);
}
