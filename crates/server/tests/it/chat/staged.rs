//! The staged dialect: the order of its events, its three scenarios, and the state of a running stream.

use std::time::Duration;

use domain::{Failure, FailureKind};
use engine::Limits;
use serde_json::{Value, json};
use testing::{RecordedRequest, ScriptedRetriever, fake_text, fake_token, passage};

use crate::support::builder::TestServerBuilder;
use crate::support::chat_client::{CHAT_STREAM, Dialect, server_finding, text, types};
use crate::support::chat_contract::{check, verdict};
use crate::support::http::Request;
use crate::support::test_server::{TestServer, advance_time};

/// Asks and reads the bytes of the complete stream.
async fn bytes_of(server: &TestServer, session: &str) -> String {
    let answer = server.call(Request::post_json(CHAT_STREAM, &Dialect::Staged.body(session))).await;
    String::from_utf8(answer.body().await).expect("a stream is UTF-8")
}

/// The bytes of an event with this time.
fn event(kind: &str, content: &str, timestamp: &str) -> String {
    format!("data: {{\"type\":\"{kind}\",\"content\":{content},\"timestamp\":\"{timestamp}\"}}\n\n")
}

#[tokio::test]
async fn scenario_1_successful_streaming_byte_for_byte() {
    let server = server_finding("fake,tokens=20", 7).start().await;
    let body = bytes_of(&server, &server.session().await).await;
    let mut kinds = vec![
        ("retrieval_start", r#"{"stage":"retrieval","status":"started"}"#.to_owned()),
        ("retrieval_complete", r#"{"stage":"retrieval","status":"complete","doc_count":7}"#.to_owned()),
        ("reranking_start", r#"{"stage":"reranking","status":"started","candidates":7}"#.to_owned()),
        ("reranking_complete", r#"{"stage":"reranking","status":"complete","selected":5}"#.to_owned()),
    ];
    kinds.extend((0..20).map(|index| ("token", Value::from(fake_token(index)).to_string())));
    kinds.push(("done", "{}".to_owned()));
    let times: Vec<_> = body
        .split_terminator("\n\n")
        .map(|block| {
            let event: Value =
                serde_json::from_str(block.trim_start_matches("data: ")).expect("data is JSON");
            event["timestamp"].as_str().expect("an event has a time").to_owned()
        })
        .collect();
    assert_eq!(times.len(), kinds.len(), "{body}");
    assert!(times.is_sorted(), "{times:?}");
    let expected: String =
        kinds.iter().zip(&times).map(|((kind, content), at)| event(kind, content, at)).collect();
    assert_eq!(body, expected);
}

#[tokio::test]
async fn scenario_2_user_cancellation() {
    let server = server_finding("fake,stall=2", 3).start().await;
    let session = server.session().await;
    let mut stream = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    let mut events = vec![stream.until("token").await, stream.until("token").await];
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    events.extend(stream.rest().await);
    assert_eq!(types(&events), ["token", "cancelled"]);
    assert_eq!(text(&events), fake_text(2));
    assert_eq!(events[2]["content"], json!({}));
}

#[tokio::test]
async fn scenario_3_backend_error() {
    let failure = Failure::new(FailureKind::Retrieval, "Failed to retrieve documents");
    let server =
        TestServerBuilder::with_model("fake").retriever(ScriptedRetriever::failing(failure)).start().await;
    let session = server.session().await;
    let events = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
    assert_eq!(types(&events), ["retrieval_start", "error"]);
    let content = json!({"message": "Failed to retrieve documents", "code": "RETRIEVAL_ERROR"});
    assert_eq!(events[1]["content"], content);
}

#[tokio::test]
async fn full_lifecycle_from_request_to_completion() {
    let server = server_finding("fake,stall=3,times=1", 3).start().await;
    let session = server.session().await;
    for round in 0..2 {
        let mut stream = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
        assert_eq!(stream.session(), session);
        if round == 0 {
            stream.until("token").await;
            server.cancel(&session, &stream.prompt()).await.assert_no_content();
            assert_eq!(types(&stream.rest().await).last(), Some(&"cancelled"));
            continue;
        }
        let order = [
            "retrieval_start",
            "retrieval_complete",
            "reranking_start",
            "reranking_complete",
            "token",
            "done",
        ];
        let prompt = stream.prompt();
        let events = stream.all().await;
        assert_eq!(types(&events), order);
        assert_eq!(text(&events), fake_text(16));
        assert_eq!(server.get_prompt(&prompt).await["status"], "done");
    }
}

#[tokio::test]
async fn error_event_ends_the_stream() {
    let server = server_finding("fake,die=5", 3).start().await;
    let session = server.session().await;
    let events = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
    assert_eq!(types(&events)[4..], ["token", "error"]);
    assert_eq!((text(&events), &events[9]["content"]["code"]), (fake_text(5), &json!("PROVIDER_ERROR")));
    server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
}

#[tokio::test]
async fn without_passages_there_is_no_reranking_stage() {
    let server = TestServerBuilder::with_model("fake,tokens=2").start().await;
    let events =
        server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&server.session().await)).await.all().await;
    assert_eq!(types(&events), ["retrieval_start", "retrieval_complete", "token", "done"]);
    assert_eq!(events[1]["content"], json!({"stage": "retrieval", "status": "complete", "doc_count": 0}));
    assert_eq!(server.fake.chats().len(), 1, "the model is called anyway");
}

#[tokio::test]
async fn event_validation() {
    let server = server_finding("fake,tokens=2", 1).start().await;
    let session = server.session().await;
    // The client validates each event as it reads.
    let events = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
    for kind in ["retrieval", "tokens", "", "Done", "keep-alive"] {
        let mut event = events[0].clone();
        event["type"] = json!(kind);
        assert_ne!(verdict("StreamEvent", &event), "ok", "{kind}");
    }
    for content in [json!(5), json!([])] {
        let mut event = events[0].clone();
        event["content"] = content;
        assert_ne!(verdict("StreamEvent", &event), "ok");
    }
}

#[tokio::test]
async fn the_state_of_a_running_stream_can_be_read() {
    let server = server_finding("fake,stall=3", 3).start().await;
    let session = server.session().await;
    let path = format!("{CHAT_STREAM}/{session}");
    server.get(&path).await.chat_error(404, "not_found").await;
    let mut stream = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    for _ in 0..3 {
        stream.until("token").await;
    }
    let state = server.get(&path).await.json(200).await;
    check("StreamingSession", &state);
    let start = state["start_time"].as_f64().expect("a time is a number");
    assert!((1_767_225_600.0..1_767_312_000.0).contains(&start), "{state}");
    let expected = json!({
        "session_id": session,
        "status": "active",
        "accumulated_tokens": [fake_token(0), fake_token(1), fake_token(2)],
        "current_stage": "generation",
        "start_time": start,
        "token_count": 3,
        "error_message": null,
    });
    assert_eq!(state, expected);
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    server.get(&path).await.chat_error(404, "not_found").await;
}

#[tokio::test]
async fn a_stream_without_passages_yet_is_in_the_retrieval_stage() {
    let server = TestServerBuilder::with_model("fake").retriever(ScriptedRetriever::hanging()).start().await;
    let session = server.session().await;
    let mut stream = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    stream.until("retrieval_start").await;
    let state = server.get(&format!("{CHAT_STREAM}/{session}")).await.json(200).await;
    check("StreamingSession", &state);
    assert_eq!((&state["current_stage"], &state["token_count"]), (&json!("retrieval"), &json!(0)));
}

#[tokio::test]
async fn a_stream_whose_model_runs_without_passages_is_in_the_generation_stage() {
    let irrelevant = ScriptedRetriever::irrelevant(vec![passage("Page", "Water runs down.")]);
    let server = TestServerBuilder::with_model("fake,stall=0").retriever(irrelevant).start().await;
    let session = server.session().await;
    let _stream = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    server.fake.wait_until(|seen| seen.iter().any(RecordedRequest::is_chat)).await;
    let state = server.get(&format!("{CHAT_STREAM}/{session}")).await.json(200).await;
    assert_eq!((&state["current_stage"], &state["token_count"]), (&json!("generation"), &json!(0)));
}

#[tokio::test]
async fn clean_up_after_completion_error_and_cancellation() {
    for model in ["fake,tokens=3", "fake,die=3", "fake,stall=3"] {
        let server = server_finding(model, 3).limits(|limits| limits.concurrent_streams = 1).start().await;
        let session = server.session().await;
        for _ in 0..2 {
            let mut stream = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
            stream.until("token").await;
            if model == "fake,stall=3" {
                server.cancel(&session, &stream.prompt()).await.assert_no_content();
            }
            stream.rest().await;
            server.get(&format!("{CHAT_STREAM}/{session}")).await.chat_error(404, "not_found").await;
            assert_eq!(server.get_session(&session).await["status"], "active");
        }
        server.wait_for_model_calls().await;
    }
}

#[tokio::test]
async fn a_silent_stream_sends_no_comments() {
    let patient = |limits: &mut Limits| limits.stall = Duration::from_secs(3600);
    let server = server_finding("fake,stall=1", 1).limits(patient).start().await;
    for dialect in [Dialect::Chat, Dialect::Staged] {
        let session = server.session().await;
        let mut stream = server.chat_stream(dialect, &dialect.body(&session)).await;
        stream.until(if dialect == Dialect::Chat { "chunk" } else { "token" }).await;
        for _ in 0..4 {
            advance_time(Duration::from_secs(16)).await;
            server.settle().await;
        }
        server.cancel(&session, &stream.prompt()).await.assert_no_content();
        assert_eq!(stream.rest().await.len(), 1, "{dialect:?}");
    }
}

#[tokio::test]
async fn the_stream_has_its_own_health_check() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let health = server.get(&format!("{CHAT_STREAM}/health")).await.json(200).await;
    assert_eq!(
        health,
        json!({"status": "healthy", "endpoint": CHAT_STREAM, "version": env!("CARGO_PKG_VERSION")})
    );
}
