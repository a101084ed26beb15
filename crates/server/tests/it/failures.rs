//! Whatever a model server does, its prompt ends in exactly one terminal delta, and leaves the stream slot,
//! the session and the connection to the model free.

use std::time::Duration;

use serde_json::json;
use testing::{ManualProvider, RequestEnding, fake_text};

use crate::deltas::{Encoding, Transcript};
use crate::harness::{KINDS, Kind, Setup};
use crate::world::{World, question, time_passes};

/// Longer than a model may be silent, at first or later.
const TOO_LONG: Duration = Duration::from_secs(61);

/// Asks a model that is the whole order; beside it there is a good one, to be asked by its name.
fn setup(kind: Kind, model: &str) -> Setup {
    let setup = Setup::new().provider("local", kind, model).provider("good", kind, "fake").order(&["local"]);
    setup.limits(|limits| limits.concurrent_streams = 1)
}

async fn check_end(world: &World) -> Transcript {
    let session = world.session().await;
    let answer = world.ask(&session).await.all().await;
    check_what_is_left(world, &session, answer).await
}

async fn check_what_is_left(world: &World, session: &str, answer: Transcript) -> Transcript {
    let events = world.resume(Encoding::Sse, &answer.prompt, None).await.all().await;
    assert_eq!(events.deltas, answer.deltas, "both encodings tell the same");
    let mut again = question(session);
    again["provider"] = json!("good");
    world.stream(Encoding::Ndjson, &again).await.all().await.done("stop");
    assert_eq!(world.look_at_session(session).await["status"], "active");
    let status = if answer.last()["type"] == "done" { "done" } else { "error" };
    assert_eq!(world.look_at_prompt(&answer.prompt).await["status"], status);
    world.until_calls_ended().await;
    answer
}

/// Checks a failure that comes after so many tokens.
async fn check_failure(setup: Setup, tokens: u64, code: &str, retryable: bool) -> String {
    let answer = check_end(&setup.start().await).await;
    assert_eq!(answer.text(), fake_text(tokens));
    answer.error(code, retryable)["message"].as_str().expect("a message is a text").to_owned()
}

/// Checks the failure of a model that falls silent when it has said so much, `tokens` of it text.
async fn check_silence(setup: Setup, said: usize, tokens: u64) -> String {
    let world = setup.limits(|limits| limits.total = 1000 * TOO_LONG).start().await;
    let session = world.session().await;
    let stream = world.ask(&session).await;
    world.until_said(&stream.prompt(), said).await;
    // The head of an answer is no silence either, and it may come as late as this.
    while world.look_at_prompt(&stream.prompt()).await["status"] == "in-flight" {
        time_passes(TOO_LONG).await;
    }
    let answer = check_what_is_left(&world, &session, stream.all().await).await;
    assert_eq!(answer.text(), fake_text(tokens));
    assert_eq!(world.until_calls_ended().await[0].ending, RequestEnding::Closed);
    answer.error("provider_timeout", true)["message"].as_str().expect("a message is a text").to_owned()
}

#[tokio::test]
async fn a_model_that_is_silent_from_the_start_times_out() {
    for kind in KINDS {
        for model in ["fake,silence=3600s", "fake,stall=0"] {
            let message = check_silence(setup(kind, model), 0, 0).await;
            assert!(message.contains("generation.first_token_seconds"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_model_that_falls_silent_later_times_out() {
    for kind in KINDS {
        check_silence(setup(kind, "fake,stall=5"), 5, 5).await;
    }
}

#[tokio::test]
async fn a_model_may_be_silent_for_60_seconds_at_first_and_for_30_later() {
    for (model, tokens, patience) in [("fake,silence=3600s", 0, 60), ("fake,stall=5", 5, 30)] {
        let world = setup(Kind::Ollama, model).start().await;
        let mut stream = world.ask(&world.session().await).await;
        stream.tokens(tokens).await;
        world.fake.wait_until(|seen| seen.len() == 1).await;
        time_passes(Duration::from_secs(patience - 15)).await;
        assert_eq!(world.look_at_prompt(&stream.prompt()).await["status"], "in-flight", "{model}");
        time_passes(Duration::from_secs(16)).await;
        assert_eq!(stream.last().await["metadata"]["code"], "provider_timeout", "{model}");
    }
}

#[tokio::test]
async fn a_model_that_says_anything_is_not_silent() {
    for model in ["fake,tokens=5,pace=20s", "fake,tokens=1,reasoning=4,pace=20s"] {
        let world = setup(Kind::OpenAi, model).start().await;
        let stream = world.ask(&world.session().await).await;
        for said in 1..5 {
            world.fake.wait_until(|seen| seen.iter().any(|seen| seen.tokens == said)).await;
            world.settle().await;
            time_passes(Duration::from_secs(20)).await;
        }
        stream.all().await.done("stop");
    }
}

#[tokio::test]
async fn reasoning_is_the_first_token_too() {
    for kind in KINDS {
        let message = check_silence(setup(kind, "fake,reasoning=8,stall=5"), 5, 0).await;
        assert!(message.contains("in the middle of its answer"), "{message}");
    }
}

#[tokio::test]
async fn a_model_that_dies_midway_is_an_error_of_the_provider() {
    for kind in KINDS {
        for model in ["fake,die=5", "fake,error=5", "fake,pace=1ms,die=5"] {
            check_failure(setup(kind, model), 5, "provider_error", true).await;
        }
    }
}

#[tokio::test]
async fn a_model_that_dies_before_its_first_token_is_unavailable() {
    for kind in KINDS {
        for model in ["fake,die=0", "fake,error=0"] {
            check_failure(setup(kind, model), 0, "provider_unavailable", true).await;
        }
    }
}

#[tokio::test]
async fn a_model_server_that_is_busy_or_broken_is_unavailable_for_now() {
    for kind in KINDS {
        for status in [429, 500, 502, 503, 504] {
            let message =
                check_failure(setup(kind, &format!("fake,status={status}")), 0, "provider_unavailable", true)
                    .await;
            assert!(message.contains(&status.to_string()) && message.contains("local"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_model_server_that_refuses_is_unavailable_for_good() {
    for kind in KINDS {
        for status in [400, 401, 403, 404] {
            let message = check_failure(
                setup(kind, &format!("fake,status={status}")),
                0,
                "provider_unavailable",
                false,
            )
            .await;
            assert!(message.contains(&status.to_string()), "{message}");
        }
    }
}

#[tokio::test]
async fn a_model_server_may_say_how_long_to_wait() {
    for kind in KINDS {
        for (model, wait) in [("fake,status=429,retry-after=7", Some(json!(7000))), ("fake,status=429", None)]
        {
            let answer = check_end(&setup(kind, model).start().await).await;
            let error = answer.error("provider_unavailable", true);
            assert_eq!(error.get("retryAfterMs"), wait.as_ref(), "{error}");
        }
    }
}

#[tokio::test]
async fn a_model_server_that_nobody_reaches_is_unavailable() {
    for kind in KINDS {
        let setup = Setup::new().unreachable("local", kind).provider("good", kind, "fake").order(&["local"]);
        let message = check_failure(setup, 0, "provider_unavailable", true).await;
        assert!(message.contains("cannot connect to http://127.0.0.1:"), "{message}");
    }
}

#[tokio::test]
async fn an_answer_without_text_is_empty() {
    for kind in KINDS {
        for model in ["fake,empty", "fake,tokens=0", "fake,reasoning=4,tokens=0", "fake,empty,length"] {
            check_failure(setup(kind, model), 0, "empty_answer", true).await;
        }
    }
}

#[tokio::test]
async fn a_question_larger_than_the_models_window_is_too_long() {
    for kind in KINDS {
        let world = Setup::new().provider("local", kind, "fake").context_window(1000).start().await;
        let session = world.session().await;
        let body = json!({"sessionId": session, "prompt": "water ".repeat(1000)});
        let answer = world.stream(Encoding::Ndjson, &body).await.all().await;
        answer.error("prompt_too_long", false);
        assert_eq!(world.fake.chats(), [], "a model is not asked what it cannot read");
        world.ask(&session).await.all().await.done("stop");
    }
}

#[tokio::test]
async fn text_comes_whole_however_it_is_cut_or_repeated() {
    for kind in KINDS {
        for model in
            ["fake,split", "fake,split,pace=1ms", "fake,repeat-ids", "fake,half", "fake,reasoning=20"]
        {
            let answer = check_end(&setup(kind, model).start().await).await;
            assert_eq!(answer.text(), fake_text(16), "{kind:?} {model}");
            answer.done("stop");
        }
    }
}

#[tokio::test]
async fn a_model_that_stops_for_length_says_so() {
    for kind in KINDS {
        let answer = check_end(&setup(kind, "fake,length").start().await).await;
        assert_eq!(answer.text(), fake_text(16));
        answer.done("length");
    }
}

#[tokio::test]
async fn a_tool_call_is_an_answer_without_tokens() {
    for kind in KINDS {
        let answer = check_end(&setup(kind, "fake,tool=search").start().await).await;
        assert_eq!(answer.done("stop")["tokenCount"], 0);
    }
}

#[tokio::test]
async fn a_bug_of_ours_is_told_and_leaves_everything_free() {
    let (provider, mut calls) = ManualProvider::new("local", "scripted");
    let setup =
        Setup::new().given("local", provider).provider("good", Kind::Ollama, "fake").order(&["local"]);
    let world = setup.limits(|limits| limits.concurrent_streams = 1).start().await;
    let (answer, ()) = futures::join!(check_end(&world), async { calls.next().await.panic() });
    answer.error("internal_error", false);
}

#[tokio::test]
async fn a_prompt_that_loses_its_journal_is_interrupted() {
    let (provider, mut calls) = ManualProvider::new("local", "scripted");
    let world = Setup::new().given("local", provider).start().await;
    let mut stream = world.ask(&world.session().await).await;
    let call = calls.next().await;
    call.text("kept");
    stream.tokens(1).await;
    world.journal.fail_appends(true);
    call.text("lost");
    let last = stream.last().await;
    assert_eq!(
        (&last["metadata"]["code"], &last["metadata"]["retryable"]),
        (&json!("interrupted"), &json!(true))
    );
}

#[tokio::test]
async fn storage_that_takes_nothing_refuses_at_the_door() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
    world.journal.fail_claims(true);
    world.try_ask(&question(&session)).await.refusal(503, "storage_unavailable").await;
    world.journal.fail_claims(false);
    world.ask(&session).await.all().await.done("stop");
}
