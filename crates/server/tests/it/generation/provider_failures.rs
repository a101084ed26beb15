//! Whatever a model server does, its prompt ends in exactly one terminal delta and releases the stream slot,
//! the session and the connection to the model.

use std::time::Duration;

use serde_json::json;
use testing::{ManualProvider, RequestEnding, fake_text};

use crate::support::builder::{PROVIDER_KINDS, ProviderKind, TestServerBuilder};
use crate::support::delta_stream::{Encoding, Transcript};
use crate::support::test_server::{TestServer, advance_time, question};

/// Longer than the first-token timeout and the stall timeout.
const BEYOND_TIMEOUT: Duration = Duration::from_secs(61);

/// A server whose default order has this model only; a working one can be selected as `good`.
fn failing(kind: ProviderKind, model: &str) -> TestServerBuilder {
    let builder = TestServerBuilder::new()
        .provider("local", kind, model)
        .provider("good", kind, "fake")
        .order(&["local"]);
    builder.limits(|limits| limits.concurrent_streams = 1)
}

async fn check_end(server: &TestServer) -> Transcript {
    let session = server.session().await;
    let answer = server.ask(&session).await.all().await;
    check_everything_is_released(server, &session, answer).await
}

async fn check_everything_is_released(server: &TestServer, session: &str, answer: Transcript) -> Transcript {
    let events = server.resume(Encoding::Sse, &answer.prompt, None).await.all().await;
    assert_eq!(events.deltas, answer.deltas, "both encodings are equal");
    let mut again = question(session);
    again["provider"] = json!("good");
    server.stream(Encoding::Ndjson, &again).await.all().await.done("stop");
    assert_eq!(server.get_session(session).await["status"], "active");
    let status = if answer.last()["type"] == "done" { "done" } else { "error" };
    assert_eq!(server.get_prompt(&answer.prompt).await["status"], status);
    server.wait_for_model_calls().await;
    answer
}

/// Checks a failure after this many tokens.
async fn check_failure(builder: TestServerBuilder, tokens: u64, code: &str, retryable: bool) -> String {
    let answer = check_end(&builder.start().await).await;
    assert_eq!(answer.text(), fake_text(tokens));
    answer.error(code, retryable)["message"].as_str().expect("a message is a text").to_owned()
}

/// Checks the timeout of a model that stalls after `generated` tokens, of which `tokens` are text.
async fn check_timeout(builder: TestServerBuilder, generated: usize, tokens: u64) -> String {
    let server = builder.limits(|limits| limits.total = 1000 * BEYOND_TIMEOUT).start().await;
    let session = server.session().await;
    let stream = server.ask(&session).await;
    server.wait_until_generated(&stream.prompt(), generated).await;
    // The head of the model's response restarts the timeout, and it may arrive this late.
    while server.get_prompt(&stream.prompt()).await["status"] == "in-flight" {
        advance_time(BEYOND_TIMEOUT).await;
    }
    let answer = check_everything_is_released(&server, &session, stream.all().await).await;
    assert_eq!(answer.text(), fake_text(tokens));
    assert_eq!(server.wait_for_model_calls().await[0].ending, RequestEnding::Closed);
    answer.error("provider_timeout", true)["message"].as_str().expect("a message is a text").to_owned()
}

#[tokio::test]
async fn a_model_that_is_silent_from_the_start_times_out() {
    for kind in PROVIDER_KINDS {
        for model in ["fake,silence=3600s", "fake,stall=0"] {
            let message = check_timeout(failing(kind, model), 0, 0).await;
            assert!(message.contains("generation.first_token_seconds"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_model_that_falls_silent_later_times_out() {
    for kind in PROVIDER_KINDS {
        check_timeout(failing(kind, "fake,stall=5"), 5, 5).await;
    }
}

#[tokio::test]
async fn the_first_token_may_take_60_seconds_and_the_next_30() {
    for (model, tokens, timeout) in [("fake,silence=3600s", 0, 60), ("fake,stall=5", 5, 30)] {
        let server = failing(ProviderKind::Ollama, model).start().await;
        let mut stream = server.ask(&server.session().await).await;
        stream.tokens(tokens).await;
        server.fake.wait_until(|seen| seen.len() == 1).await;
        advance_time(Duration::from_secs(timeout - 15)).await;
        assert_eq!(server.get_prompt(&stream.prompt()).await["status"], "in-flight", "{model}");
        advance_time(Duration::from_secs(16)).await;
        assert_eq!(stream.last().await["metadata"]["code"], "provider_timeout", "{model}");
    }
}

#[tokio::test]
async fn any_output_restarts_the_stall_timeout() {
    for model in ["fake,tokens=5,pace=20s", "fake,tokens=1,reasoning=4,pace=20s"] {
        let server = failing(ProviderKind::OpenAi, model).start().await;
        let stream = server.ask(&server.session().await).await;
        for tokens in 1..5 {
            server.fake.wait_until(|seen| seen.iter().any(|seen| seen.tokens == tokens)).await;
            server.settle().await;
            advance_time(Duration::from_secs(20)).await;
        }
        stream.all().await.done("stop");
    }
}

#[tokio::test]
async fn reasoning_counts_as_the_first_token() {
    for kind in PROVIDER_KINDS {
        let message = check_timeout(failing(kind, "fake,reasoning=8,stall=5"), 5, 0).await;
        assert!(message.contains("in the middle of its answer"), "{message}");
    }
}

#[tokio::test]
async fn a_model_that_dies_midway_is_a_provider_error() {
    for kind in PROVIDER_KINDS {
        for model in ["fake,die=5", "fake,error=5", "fake,pace=1ms,die=5"] {
            check_failure(failing(kind, model), 5, "provider_error", true).await;
        }
    }
}

#[tokio::test]
async fn a_model_that_dies_before_its_first_token_is_unavailable() {
    for kind in PROVIDER_KINDS {
        for model in ["fake,die=0", "fake,error=0"] {
            check_failure(failing(kind, model), 0, "provider_unavailable", true).await;
        }
    }
}

#[tokio::test]
async fn a_busy_or_broken_model_server_may_be_retried() {
    for kind in PROVIDER_KINDS {
        for status in [429, 500, 502, 503, 504] {
            let message = check_failure(
                failing(kind, &format!("fake,status={status}")),
                0,
                "provider_unavailable",
                true,
            )
            .await;
            assert!(message.contains(&status.to_string()) && message.contains("local"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_model_server_that_refuses_may_not_be_retried() {
    for kind in PROVIDER_KINDS {
        for status in [400, 401, 403, 404] {
            let message = check_failure(
                failing(kind, &format!("fake,status={status}")),
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
async fn retry_after_of_the_model_server_is_passed_on() {
    for kind in PROVIDER_KINDS {
        for (model, wait) in [("fake,status=429,retry-after=7", Some(json!(7000))), ("fake,status=429", None)]
        {
            let answer = check_end(&failing(kind, model).start().await).await;
            let error = answer.error("provider_unavailable", true);
            assert_eq!(error.get("retryAfterMs"), wait.as_ref(), "{error}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_model_server_is_unavailable() {
    for kind in PROVIDER_KINDS {
        let builder = TestServerBuilder::new()
            .unreachable_provider("local", kind)
            .provider("good", kind, "fake")
            .order(&["local"]);
        let message = check_failure(builder, 0, "provider_unavailable", true).await;
        assert!(message.contains("cannot connect to http://127.0.0.1:"), "{message}");
    }
}

#[tokio::test]
async fn an_answer_without_text_is_empty() {
    for kind in PROVIDER_KINDS {
        for model in ["fake,empty", "fake,tokens=0", "fake,reasoning=4,tokens=0", "fake,empty,length"] {
            check_failure(failing(kind, model), 0, "empty_answer", true).await;
        }
    }
}

#[tokio::test]
async fn a_question_larger_than_the_models_window_is_too_long() {
    for kind in PROVIDER_KINDS {
        let server =
            TestServerBuilder::new().provider("local", kind, "fake").context_window(1000).start().await;
        let session = server.session().await;
        let body = json!({"sessionId": session, "prompt": "water ".repeat(1000)});
        let answer = server.stream(Encoding::Ndjson, &body).await.all().await;
        answer.error("prompt_too_long", false);
        assert_eq!(server.fake.chats(), [], "no model is called");
        server.ask(&session).await.all().await.done("stop");
    }
}

#[tokio::test]
async fn text_is_complete_however_the_model_server_splits_it() {
    for kind in PROVIDER_KINDS {
        for model in
            ["fake,split", "fake,split,pace=1ms", "fake,repeat-ids", "fake,half", "fake,reasoning=20"]
        {
            let answer = check_end(&failing(kind, model).start().await).await;
            assert_eq!(answer.text(), fake_text(16), "{kind:?} {model}");
            answer.done("stop");
        }
    }
}

#[tokio::test]
async fn a_model_that_stops_for_length_has_that_finish_reason() {
    for kind in PROVIDER_KINDS {
        let answer = check_end(&failing(kind, "fake,length").start().await).await;
        assert_eq!(answer.text(), fake_text(16));
        answer.done("length");
    }
}

#[tokio::test]
async fn a_tool_call_is_an_answer_without_tokens() {
    for kind in PROVIDER_KINDS {
        let answer = check_end(&failing(kind, "fake,tool=search").start().await).await;
        assert_eq!(answer.done("stop")["tokenCount"], 0);
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_releases_everything() {
    let (provider, mut calls) = ManualProvider::new("local", "scripted");
    let builder = TestServerBuilder::new()
        .custom_provider("local", provider)
        .provider("good", ProviderKind::Ollama, "fake")
        .order(&["local"]);
    let server = builder.limits(|limits| limits.concurrent_streams = 1).start().await;
    let (answer, ()) = futures::join!(check_end(&server), async { calls.next().await.panic() });
    answer.error("internal_error", false);
}

#[tokio::test]
async fn a_prompt_that_loses_its_journal_is_interrupted() {
    let (provider, mut calls) = ManualProvider::new("local", "scripted");
    let server = TestServerBuilder::new().custom_provider("local", provider).start().await;
    let mut stream = server.ask(&server.session().await).await;
    let call = calls.next().await;
    call.text("recorded");
    stream.tokens(1).await;
    server.journal.fail_appends(true);
    call.text("lost");
    let last = stream.last().await;
    assert_eq!(
        (&last["metadata"]["code"], &last["metadata"]["retryable"]),
        (&json!("interrupted"), &json!(true))
    );
}

#[tokio::test]
async fn failing_storage_refuses_prompts() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    server.journal.fail_claims(true);
    server.try_ask(&question(&session)).await.error(503, "storage_unavailable").await;
    server.journal.fail_claims(false);
    server.ask(&session).await.all().await.done("stop");
}
