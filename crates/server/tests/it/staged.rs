//! The staged dialect: its events in order, its three scenarios, and a stream as it stands.

use std::time::Duration;

use domain::{Failure, FailureKind};
use engine::Limits;
use serde_json::{Value, json};
use testing::{RecordedRequest, ScriptedRetriever, fake_text, fake_token, passage};

use crate::client::Call;
use crate::contracts::{check, verdict};
use crate::harness::Setup;
use crate::talk::{CHAT_STREAM, Dialect, finding, text, types};
use crate::world::{World, time_passes};

/// Asks, and reads the bytes of the whole stream.
async fn bytes_of(world: &World, session: &str) -> String {
    let answer = world.call(Call::post_json(CHAT_STREAM, &Dialect::Staged.body(session))).await;
    String::from_utf8(answer.body().await).expect("a stream is UTF-8")
}

/// The event as it is written, at this time.
fn written(kind: &str, content: &str, timestamp: &str) -> String {
    format!("data: {{\"type\":\"{kind}\",\"content\":{content},\"timestamp\":\"{timestamp}\"}}\n\n")
}

#[tokio::test]
async fn scenario_1_successful_streaming_byte_for_byte() {
    let world = finding("fake,tokens=20", 7).start().await;
    let told = bytes_of(&world, &world.session().await).await;
    let mut kinds = vec![
        ("retrieval_start", r#"{"stage":"retrieval","status":"started"}"#.to_owned()),
        ("retrieval_complete", r#"{"stage":"retrieval","status":"complete","doc_count":7}"#.to_owned()),
        ("reranking_start", r#"{"stage":"reranking","status":"started","candidates":7}"#.to_owned()),
        ("reranking_complete", r#"{"stage":"reranking","status":"complete","selected":5}"#.to_owned()),
    ];
    kinds.extend((0..20).map(|index| ("token", Value::from(fake_token(index)).to_string())));
    kinds.push(("done", "{}".to_owned()));
    let times: Vec<_> = told
        .split_terminator("\n\n")
        .map(|block| {
            let event: Value =
                serde_json::from_str(block.trim_start_matches("data: ")).expect("data is JSON");
            event["timestamp"].as_str().expect("an event has a time").to_owned()
        })
        .collect();
    assert_eq!(times.len(), kinds.len(), "{told}");
    assert!(times.is_sorted(), "{times:?}");
    let expected: String =
        kinds.iter().zip(&times).map(|((kind, content), at)| written(kind, content, at)).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn scenario_2_user_cancellation() {
    let world = finding("fake,stall=2", 3).start().await;
    let session = world.session().await;
    let mut stream = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    let mut events = vec![stream.until("token").await, stream.until("token").await];
    world.cancel(&session, &stream.prompt()).await.no_content();
    events.extend(stream.rest().await);
    assert_eq!(types(&events), ["token", "cancelled"]);
    assert_eq!(text(&events), fake_text(2));
    assert_eq!(events[2]["content"], json!({}));
}

#[tokio::test]
async fn scenario_3_backend_error() {
    let failure = Failure::new(FailureKind::Retrieval, "Failed to retrieve documents");
    let world = Setup::of("fake").retriever(ScriptedRetriever::failing(failure)).start().await;
    let session = world.session().await;
    let events = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
    assert_eq!(types(&events), ["retrieval_start", "error"]);
    let content = json!({"message": "Failed to retrieve documents", "code": "RETRIEVAL_ERROR"});
    assert_eq!(events[1]["content"], content);
}

#[tokio::test]
async fn full_lifecycle_from_request_to_completion() {
    let world = finding("fake,stall=3,times=1", 3).start().await;
    let session = world.session().await;
    for round in 0..2 {
        let mut stream = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await;
        assert_eq!(stream.session(), session);
        if round == 0 {
            stream.until("token").await;
            world.cancel(&session, &stream.prompt()).await.no_content();
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
        assert_eq!(world.look_at_prompt(&prompt).await["status"], "done");
    }
}

#[tokio::test]
async fn error_event_ends_the_stream() {
    let world = finding("fake,die=5", 3).start().await;
    let session = world.session().await;
    let events = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
    assert_eq!(types(&events)[4..], ["token", "error"]);
    assert_eq!((text(&events), &events[9]["content"]["code"]), (fake_text(5), &json!("PROVIDER_ERROR")));
    world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
}

#[tokio::test]
async fn where_nothing_is_found_nothing_is_reranked() {
    let world = Setup::of("fake,tokens=2").start().await;
    let events = world.talk(Dialect::Staged, &Dialect::Staged.body(&world.session().await)).await.all().await;
    assert_eq!(types(&events), ["retrieval_start", "retrieval_complete", "token", "done"]);
    assert_eq!(events[1]["content"], json!({"stage": "retrieval", "status": "complete", "doc_count": 0}));
    assert_eq!(world.fake.chats().len(), 1, "the model is asked all the same");
}

#[tokio::test]
async fn event_validation() {
    let world = finding("fake,tokens=2", 1).start().await;
    let session = world.session().await;
    // Each event of this stream is checked as it is read.
    let events = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
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
async fn a_stream_is_seen_as_it_stands_while_it_runs() {
    let world = finding("fake,stall=3", 3).start().await;
    let session = world.session().await;
    let path = format!("{CHAT_STREAM}/{session}");
    world.get(&path).await.chat_refusal(404, "not_found").await;
    let mut stream = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    for _ in 0..3 {
        stream.until("token").await;
    }
    let standing = world.get(&path).await.json(200).await;
    check("StreamingSession", &standing);
    let start = standing["start_time"].as_f64().expect("a time is a number");
    assert!((1_767_225_600.0..1_767_312_000.0).contains(&start), "{standing}");
    let expected = json!({
        "session_id": session,
        "status": "active",
        "accumulated_tokens": [fake_token(0), fake_token(1), fake_token(2)],
        "current_stage": "generation",
        "start_time": start,
        "token_count": 3,
        "error_message": null,
    });
    assert_eq!(standing, expected);
    world.cancel(&session, &stream.prompt()).await.no_content();
    world.get(&path).await.chat_refusal(404, "not_found").await;
}

#[tokio::test]
async fn a_stream_that_looks_for_passages_is_in_that_stage() {
    let world = Setup::of("fake").retriever(ScriptedRetriever::hanging()).start().await;
    let session = world.session().await;
    let mut stream = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    stream.until("retrieval_start").await;
    let standing = world.get(&format!("{CHAT_STREAM}/{session}")).await.json(200).await;
    check("StreamingSession", &standing);
    assert_eq!((&standing["current_stage"], &standing["token_count"]), (&json!("retrieval"), &json!(0)));
}

#[tokio::test]
async fn a_stream_whose_model_works_without_passages_is_in_generation() {
    let irrelevant = ScriptedRetriever::irrelevant(vec![passage("Page", "Water runs down.")]);
    let world = Setup::of("fake,stall=0").retriever(irrelevant).start().await;
    let session = world.session().await;
    let _stream = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    world.fake.wait_until(|seen| seen.iter().any(RecordedRequest::is_chat)).await;
    let standing = world.get(&format!("{CHAT_STREAM}/{session}")).await.json(200).await;
    assert_eq!((&standing["current_stage"], &standing["token_count"]), (&json!("generation"), &json!(0)));
}

#[tokio::test]
async fn clean_up_after_completion_error_and_cancellation() {
    for model in ["fake,tokens=3", "fake,die=3", "fake,stall=3"] {
        let world = finding(model, 3).limits(|limits| limits.concurrent_streams = 1).start().await;
        let session = world.session().await;
        for _ in 0..2 {
            let mut stream = world.talk(Dialect::Staged, &Dialect::Staged.body(&session)).await;
            stream.until("token").await;
            if model == "fake,stall=3" {
                world.cancel(&session, &stream.prompt()).await.no_content();
            }
            stream.rest().await;
            world.get(&format!("{CHAT_STREAM}/{session}")).await.chat_refusal(404, "not_found").await;
            assert_eq!(world.look_at_session(&session).await["status"], "active");
        }
        world.until_calls_ended().await;
    }
}

#[tokio::test]
async fn nothing_but_events_is_sent_however_long_the_silence() {
    let patient = |limits: &mut Limits| limits.stall = Duration::from_secs(3600);
    let world = finding("fake,stall=1", 1).limits(patient).start().await;
    for dialect in [Dialect::Chat, Dialect::Staged] {
        let session = world.session().await;
        let mut stream = world.talk(dialect, &dialect.body(&session)).await;
        stream.until(if dialect == Dialect::Chat { "chunk" } else { "token" }).await;
        for _ in 0..4 {
            time_passes(Duration::from_secs(16)).await;
            world.settle().await;
        }
        world.cancel(&session, &stream.prompt()).await.no_content();
        assert_eq!(stream.rest().await.len(), 1, "{dialect:?}");
    }
}

#[tokio::test]
async fn the_stream_has_a_health_call_of_its_own() {
    let world = Setup::of("fake").start().await;
    let health = world.get(&format!("{CHAT_STREAM}/health")).await.json(200).await;
    assert_eq!(
        health,
        json!({"status": "healthy", "endpoint": CHAT_STREAM, "version": env!("CARGO_PKG_VERSION")})
    );
}
