//! The stream of an answer: its deltas, when its head is sent, and in how many writes.

use std::time::Duration;

use serde_json::json;
use testing::{ManualProvider, RequestEnding, fake_text};
use tokio::time::Instant;

use crate::support::builder::{PROVIDER_KINDS, ProviderKind, TestServerBuilder};
use crate::support::delta_stream::{DeltaStream, ENCODINGS, Encoding};
use crate::support::http::Request;
use crate::support::test_server::{STREAM, advance_time, question};

#[tokio::test]
async fn an_answer_is_its_tokens_and_one_done() {
    for kind in PROVIDER_KINDS {
        let server = TestServerBuilder::new().provider("local", kind, "fake,tokens=40").start().await;
        for encoding in ENCODINGS {
            let body = question(&server.session().await);
            let answer = server.stream(encoding, &body).await.all().await;
            assert_eq!(answer.text(), fake_text(40));
            let done = answer.done("stop");
            assert_eq!((&done["provider"], &done["model"]), (&json!("local"), &json!("fake,tokens=40")));
            assert_eq!((&done["sources"], &done["retrievalMs"]), (&json!([]), &json!(3)));
            assert!(done["timeToFirstTokenMs"].as_u64().is_some_and(|millis| millis < 10_000), "{done}");
            assert!(done["tokensPerSecond"].as_f64().is_some_and(|rate| rate > 0.0), "{done}");
            assert_eq!(
                done.get("cachedTokens"),
                (kind == ProviderKind::OpenAi).then_some(&json!(0)),
                "as the model server reports it"
            );
            assert_eq!(done.get("idempotencyKey"), None);
        }
        let endings: Vec<_> = server.fake.chats().iter().map(|seen| seen.ending).collect();
        assert_eq!(endings, [RequestEnding::Completed; 2]);
    }
}

#[tokio::test]
async fn the_response_head_is_sent_at_admission() {
    let server = TestServerBuilder::with_model("fake,silence=3600s").start().await;
    for encoding in ENCODINGS {
        let session = server.session().await;
        let stream = server.stream(encoding, &question(&session)).await;
        let prompt = stream.prompt();
        assert_eq!(stream.header("x-session-id"), session);
        assert_eq!(stream.header("x-trace-id").len(), 32);
        assert_eq!(stream.header("cache-control"), "no-cache");
        assert_eq!(stream.header("x-accel-buffering"), "no");
        assert_eq!(server.get_prompt(&prompt).await["status"], "in-flight");
        let resumed = server.resume(encoding, &prompt, None).await;
        for name in ["x-prompt-id", "x-session-id", "cache-control", "x-accel-buffering"] {
            assert_eq!(resumed.header(name), stream.header(name));
        }
        assert_ne!(resumed.header("x-trace-id"), stream.header("x-trace-id"));
    }
}

#[tokio::test]
async fn a_burst_of_64_tokens_leaves_in_a_handful_of_writes() {
    for kind in PROVIDER_KINDS {
        let server = TestServerBuilder::new().provider("local", kind, "fake,tokens=64").start().await;
        for encoding in ENCODINGS {
            let answer = server.stream(encoding, &question(&server.session().await)).await.all().await;
            assert_eq!(answer.deltas.len(), 65);
            assert!(answer.chunks <= 4, "{kind:?} {encoding:?}: {} writes", answer.chunks);
        }
    }
}

#[tokio::test]
async fn tokens_of_a_slow_model_are_sent_one_by_one() {
    let (provider, mut calls) = ManualProvider::new("local", "scripted");
    let server = TestServerBuilder::new().custom_provider("local", provider).start().await;
    for encoding in ENCODINGS {
        let mut stream = server.stream(encoding, &question(&server.session().await)).await;
        let call = calls.next().await;
        for token in ["one ", "by ", "one"] {
            call.text(token);
            assert_eq!(stream.tokens(1).await, token, "it arrives before the next one is generated");
        }
        call.finish();
        assert_eq!((stream.rest().await.len(), stream.chunks), (1, 4));
    }
}

#[tokio::test]
async fn a_silent_event_stream_sends_a_comment_every_15_seconds() {
    const COMMENTS: u32 = 30;
    let server = TestServerBuilder::with_model("fake,stall=1")
        .limits(|limits| limits.stall = Duration::from_secs(3600))
        .start()
        .await;
    let session = server.session().await;
    let mut stream = server.stream(Encoding::Sse, &question(&session)).await;
    stream.tokens(1).await;
    let silent_since = Instant::now();
    for _ in 0..COMMENTS {
        advance_time(Duration::from_secs(15)).await;
        assert_eq!(stream.chunk().await.as_deref(), Some(&b": keep-alive\n\n"[..]));
    }
    // A timer that is a second late each time would exceed this even on a busy machine.
    let waited = silent_since.elapsed();
    assert!(waited < Duration::from_secs(16) * COMMENTS, "{COMMENTS} comments in {waited:?}");
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    assert_eq!(stream.rest().await.len(), 1, "a comment is not a delta");
}

#[tokio::test]
async fn an_event_stream_with_tokens_sends_no_comments() {
    let server = TestServerBuilder::with_model("fake,tokens=4,pace=8s").start().await;
    let mut stream = server.stream(Encoding::Sse, &question(&server.session().await)).await;
    for _ in 0..4 {
        let chunk = String::from_utf8(stream.chunk().await.expect("the stream continues")).unwrap();
        assert!(chunk.starts_with("id: "), "{chunk}");
        advance_time(Duration::from_secs(8)).await;
    }
}

#[tokio::test]
async fn ndjson_has_no_comments() {
    let server = TestServerBuilder::with_model("fake,stall=1")
        .limits(|limits| limits.stall = Duration::from_secs(3600))
        .start()
        .await;
    let session = server.session().await;
    let mut stream = server.ask(&session).await;
    stream.tokens(1).await;
    advance_time(Duration::from_secs(300)).await;
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    let chunk = String::from_utf8(stream.chunk().await.expect("the stream continues")).unwrap();
    assert!(chunk.starts_with(r#"{"promptId""#) && chunk.contains(r#""type":"done""#), "{chunk}");
    assert_eq!(stream.chunk().await, None);
}

#[tokio::test]
async fn a_session_has_one_running_prompt() {
    let server = TestServerBuilder::with_model("fake,stall=1").start().await;
    let session = server.session().await;
    let mut stream = server.ask(&session).await;
    stream.tokens(1).await;
    let error = server.try_ask(&question(&session)).await.error(409, "prompt_in_flight").await;
    assert_eq!(error["details"], json!({"promptId": stream.prompt()}));
    let mut elsewhere = server.ask(&server.session().await).await;
    elsewhere.tokens(1).await;
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    server.ask(&session).await.tokens(1).await;
}

#[tokio::test]
async fn the_session_is_free_once_the_last_delta_arrives() {
    let server =
        TestServerBuilder::with_model("fake").limits(|limits| limits.concurrent_streams = 1).start().await;
    let session = server.session().await;
    for _ in 0..50 {
        let mut stream = server.ask(&session).await;
        while stream.next().await.expect("a terminal delta comes")["type"] == "token" {}
    }
}

#[tokio::test]
async fn a_prompt_includes_the_earlier_turns_of_its_session() {
    let server = TestServerBuilder::with_model("fake,echo").start().await;
    let session = server.session().await;
    for prompt in ["first one", "second one"] {
        let body = json!({"sessionId": session, "prompt": prompt});
        assert_eq!(server.stream(Encoding::Ndjson, &body).await.all().await.text(), prompt);
    }
    let chats = server.fake.chats();
    let messages = chats[1].body["messages"].as_array().unwrap();
    let said: Vec<_> = messages[1..].iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["first one", "first one", "second one"]);
    let body = json!({"sessionId": server.session().await, "prompt": "alone"});
    server.stream(Encoding::Ndjson, &body).await.all().await;
    assert_eq!(server.fake.chats()[2].body["messages"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn unknown_fields_are_ignored_and_null_means_absent() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    for (name, value) in [
        ("colour", json!({"is": ["blue"]})),
        ("idempotencyKey", json!(null)),
        ("topK", json!(null)),
        ("filters", json!(null)),
        ("provider", json!(null)),
        ("topK", json!(5.0)),
        ("topK", json!(1)),
        ("topK", json!(20)),
        ("filters", json!({})),
        ("filters", json!({"title": null})),
        ("filters", json!({"repoUrl": "r", "filePath": "src/**/*.rs", "language": ["rust", "c"]})),
        ("filters", json!({"collection": "c", "title": "t", "metadata.team": "a"})),
    ] {
        let mut body = question(&session);
        body[name] = value;
        server.stream(Encoding::Ndjson, &body).await.all().await.done("stop");
    }
}

#[tokio::test]
async fn a_body_is_read_as_json_whatever_its_content_type() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    for content_type in
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8", "?"]
    {
        let request = Request::post_json(STREAM, &question(&session)).header("Content-Type", content_type);
        DeltaStream::new(server.call(request).await, Encoding::Ndjson).await.all().await.done("stop");
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_does_not_delay_others() {
    let builder =
        TestServerBuilder::with_model("fake,tokens=40000").limits(|limits| limits.max_tokens = 40_000);
    let server = builder.start().await;
    let session = server.session().await;
    let idle = server.ask(&session).await;
    let other = server.resume(Encoding::Ndjson, &idle.prompt(), None).await.all().await;
    assert_eq!(other.deltas.len(), 40_001);
    let late = idle.all().await;
    assert!(late.bytes == other.bytes, "the late reader gets the same bytes");
}
