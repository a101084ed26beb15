//! The failures of a prompt in the chat dialects: a status before the first byte of a stream, an error event
//! after it.

use std::time::Duration;

use domain::{Failure, FailureKind};
use serde_json::{Value, json};
use testing::{ManualProvider, ScriptedRetriever, fake_text};

use crate::support::builder::{ProviderKind, TestServerBuilder};
use crate::support::chat_client::{CHAT, CHAT_STREAM, Dialect, retriever_finding, server_finding, text};
use crate::support::http::Request;
use crate::support::test_server::{TestServer, advance_time};

/// The first-token and stall timeout here: shorter than that of the client.
const MODEL_TIMEOUT: Duration = Duration::from_secs(4);
const BEYOND_TIMEOUT: Duration = Duration::from_secs(5);

/// The response to a failure in each dialect.
struct ExpectedFailure {
    status: u16,
    chat: &'static str,
    staged: &'static str,
    /// Tokens before the failure.
    tokens: u64,
}

const UNAVAILABLE: ExpectedFailure =
    ExpectedFailure { status: 503, chat: "agent_unavailable", staged: "PROVIDER_UNAVAILABLE", tokens: 0 };
const SILENT: ExpectedFailure =
    ExpectedFailure { status: 504, chat: "agent_timeout", staged: "PROVIDER_TIMEOUT", tokens: 0 };
const RETRIEVAL: ExpectedFailure =
    ExpectedFailure { status: 503, chat: "retrieval_unavailable", staged: "RETRIEVAL_ERROR", tokens: 0 };

/// Asks the same over all three endpoints and checks the response of each.
async fn check_failure(server: &TestServer, expected: &ExpectedFailure) {
    let question = "why does water run down? ".repeat(8);
    let session = server.session().await;
    let asking =
        Request::post_json(CHAT, &json!({"query": question, "session_id": session})).send(server.address);
    let asking = tokio::spawn(asking);
    if expected.status == SILENT.status {
        wait_for_timeout(server, expected).await;
    }
    let answer = asking.await.expect("the request does not panic");
    assert_eq!(answer.header("x-session-id"), Some(session.as_str()));
    assert!(answer.header("x-prompt-id").is_some());
    answer.chat_error(expected.status, expected.chat).await;
    for dialect in [Dialect::Chat, Dialect::Staged] {
        let body = json!({dialect.question(): question, "session_id": session});
        let stream = server.chat_stream(dialect, &body).await;
        if expected.status == SILENT.status {
            wait_for_timeout(server, expected).await;
        }
        let events = stream.all().await;
        assert_eq!(text(&events), fake_text(expected.tokens), "{dialect:?}");
        let last = events.last().expect("a stream has a terminal event");
        let (code, expected_code) = match dialect {
            Dialect::Chat => (&last["error_code"], expected.chat),
            Dialect::Staged => (&last["content"]["code"], expected.staged),
        };
        assert_eq!((&last["type"], code), (&json!("error"), &json!(expected_code)), "{last}");
        assert!(!events.iter().any(|event| event["type"] == "sources"), "no sources: {events:?}");
    }
}

/// Lets the running prompt time out, once its model has generated all its tokens.
async fn wait_for_timeout(server: &TestServer, expected: &ExpectedFailure) {
    let running = async || {
        let prompts = server.get("/api/prompts?status=in-flight").await.json(200).await;
        prompts["prompts"][0]["promptId"].as_str().map(str::to_owned)
    };
    let prompt = loop {
        if let Some(prompt) = running().await {
            break prompt;
        }
    };
    server.wait_until_generated(&prompt, usize::try_from(expected.tokens).expect("a few")).await;
    // The head of the model's response restarts the timeout, and it may arrive this late.
    while running().await.is_some() {
        advance_time(BEYOND_TIMEOUT).await;
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_or_refuses_is_unavailable() {
    check_failure(
        &TestServerBuilder::new()
            .unreachable_provider("local", ProviderKind::Ollama)
            .retriever(retriever_finding(1))
            .start()
            .await,
        &UNAVAILABLE,
    )
    .await;
    for model in ["fake,status=401", "fake,status=404", "fake,status=500", "fake,status=429", "fake,die=0"] {
        check_failure(&server_finding(model, 1).start().await, &UNAVAILABLE).await;
    }
}

#[tokio::test]
async fn retry_after_of_the_provider_is_passed_on() {
    let server = server_finding("fake,status=429,retry-after=7", 1).start().await;
    let answer = server.call(Request::post_json(CHAT, &json!({"query": "why?"}))).await;
    assert_eq!(answer.header("retry-after"), Some("7"));
    answer.chat_error(503, "agent_unavailable").await;
}

#[tokio::test]
async fn a_provider_that_is_silent_times_out() {
    for (model, expected) in
        [("fake,silence=3600s", SILENT), ("fake,stall=5", ExpectedFailure { tokens: 5, ..SILENT })]
    {
        let builder =
            server_finding(model, 1).first_token(MODEL_TIMEOUT).limits(|limits| limits.stall = MODEL_TIMEOUT);
        check_failure(&builder.start().await, &expected).await;
    }
}

#[tokio::test]
async fn a_provider_that_dies_midway_differs_from_an_unreachable_one() {
    let expected =
        ExpectedFailure { status: 502, chat: "agent_unavailable", staged: "PROVIDER_ERROR", tokens: 5 };
    for model in ["fake,die=5", "fake,error=5"] {
        check_failure(&server_finding(model, 1).start().await, &expected).await;
    }
}

#[tokio::test]
async fn an_answer_without_text_is_empty() {
    let expected = ExpectedFailure { status: 502, chat: "empty_answer", staged: "EMPTY_ANSWER", tokens: 0 };
    check_failure(&server_finding("fake,empty", 1).start().await, &expected).await;
}

#[tokio::test]
async fn a_question_that_is_larger_than_the_model_s_window_is_too_long() {
    let expected =
        ExpectedFailure { status: 422, chat: "prompt_too_long", staged: "PROMPT_TOO_LONG", tokens: 0 };
    check_failure(&server_finding("fake", 1).context_window(20).start().await, &expected).await;
}

#[tokio::test]
async fn a_failed_retrieval_is_reported_before_a_model_is_called() {
    let failure = Failure::new(FailureKind::Retrieval, "the index is gone");
    let server =
        TestServerBuilder::with_model("fake").retriever(ScriptedRetriever::failing(failure)).start().await;
    check_failure(&server, &RETRIEVAL).await;
    assert_eq!(server.fake.chats(), []);
}

#[tokio::test]
async fn a_failing_embedder_differs_from_a_failing_index() {
    let server = TestServerBuilder::with_model("fake")
        .embedding_model("fake,status=500")
        .with_document_retrieval()
        .start()
        .await;
    let document = json!({"repoUrl": "https://r", "filePath": "water.md", "text": "Water runs down."});
    let ingest = Request::post_json("/api/documents/ingest", &json!({"documents": [document]}));
    // Its words are indexed soon and its vectors never are. An empty index is not searched.
    let ingesting = tokio::spawn(ingest.send(server.address));
    let search = Request::post_json("/api/query", &json!({"query": "water"}));
    while server.call(search.clone()).await.status == 200 {
        tokio::task::yield_now().await;
    }
    let expected = ExpectedFailure { chat: "embedding_failed", ..RETRIEVAL };
    check_failure(&server, &expected).await;
    ingesting.abort();
}

#[tokio::test]
async fn failures_of_an_in_process_provider_have_their_own_codes() {
    for (kind, expected) in [
        (
            FailureKind::Overloaded,
            ExpectedFailure { status: 503, chat: "overloaded", staged: "OVERLOADED", tokens: 0 },
        ),
        (
            FailureKind::Internal,
            ExpectedFailure { status: 500, chat: "internal_error", staged: "INTERNAL_ERROR", tokens: 0 },
        ),
    ] {
        let (provider, mut calls) = ManualProvider::new("local", "scripted");
        let server = TestServerBuilder::new()
            .custom_provider("local", provider)
            .retriever(retriever_finding(1))
            .start()
            .await;
        let failing = tokio::spawn(async move {
            for _ in 0..3 {
                calls.next().await.fail(Failure::new(kind, "no room"));
            }
        });
        check_failure(&server, &expected).await;
        failing.await.expect("three calls are made");
    }
}

#[tokio::test]
async fn a_failing_journal_interrupts_prompts_and_refuses_new_ones() {
    let (provider, mut calls) = ManualProvider::new("local", "scripted");
    let server = TestServerBuilder::new()
        .custom_provider("local", provider)
        .retriever(retriever_finding(1))
        .start()
        .await;
    let session = server.session().await;
    let asking = tokio::spawn(Request::post_json(CHAT, &json!({"query": "why?"})).send(server.address));
    let first = calls.next().await;
    let chat = server.chat_stream(Dialect::Chat, &json!({"query": "why?"})).await;
    let second = calls.next().await;
    let staged = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    let third = calls.next().await;
    server.journal.fail_appends(true);
    for call in [&first, &second, &third] {
        call.text("lost");
    }
    asking.await.expect("the request does not panic").chat_error(503, "interrupted").await;
    assert_eq!(chat.all().await[0]["error_code"], "interrupted");
    let last = staged.all().await.pop().expect("a terminal event comes");
    assert_eq!(last["content"]["code"], "INTERRUPTED");
    server.journal.fail_appends(false);
    server.journal.fail_claims(true);
    for path in [CHAT, CHAT_STREAM] {
        let refused = server.call(Request::post_json(path, &json!({"query": "why?"}))).await;
        refused.chat_error(503, "storage_unavailable").await;
    }
}

#[tokio::test]
async fn shutdown_interrupts_running_prompts() {
    let server = server_finding("fake,stall=3", 1).start().await;
    let session = server.session().await;
    let address = server.address;
    let asking = Request::post_json(CHAT, &json!({"query": "why?"})).send(address);
    let asking = tokio::spawn(asking);
    let mut chat = server.chat_stream(Dialect::Chat, &json!({"query": "why?"})).await;
    let mut staged = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    server.fake.wait_until(|seen| seen.len() == 3 && seen.iter().all(|seen| seen.tokens == 3)).await;
    let stopped = server.stop();
    let code = |events: Vec<Value>, name: &str| events.last().map(|last| last.pointer(name).cloned());
    assert_eq!(code(chat.rest().await, "/error_code"), Some(Some(json!("interrupted"))));
    assert_eq!(code(staged.rest().await, "/content/code"), Some(Some(json!("INTERRUPTED"))));
    asking.await.expect("the request does not panic").chat_error(503, "interrupted").await;
    stopped.await;
}
