//! Asking: what an answer is made of, when its head comes, and in how many writes it leaves.

use std::time::Duration;

use serde_json::json;
use testing::{ManualProvider, RequestEnding, fake_text};
use tokio::time::Instant;

use crate::client::Call;
use crate::deltas::{ENCODINGS, Encoding, Stream};
use crate::harness::{KINDS, Kind, Setup};
use crate::world::{STREAM, question, time_passes};

#[tokio::test]
async fn an_answer_is_its_tokens_and_one_done() {
    for kind in KINDS {
        let world = Setup::new().provider("local", kind, "fake,tokens=40").start().await;
        for encoding in ENCODINGS {
            let body = question(&world.session().await);
            let answer = world.stream(encoding, &body).await.all().await;
            assert_eq!(answer.text(), fake_text(40));
            let done = answer.done("stop");
            assert_eq!((&done["provider"], &done["model"]), (&json!("local"), &json!("fake,tokens=40")));
            assert_eq!((&done["sources"], &done["retrievalMs"]), (&json!([]), &json!(3)));
            assert!(done["timeToFirstTokenMs"].as_u64().is_some_and(|millis| millis < 10_000), "{done}");
            assert!(done["tokensPerSecond"].as_f64().is_some_and(|rate| rate > 0.0), "{done}");
            assert_eq!(
                done.get("cachedTokens"),
                (kind == Kind::OpenAi).then_some(&json!(0)),
                "as it was told"
            );
            assert_eq!(done.get("idempotencyKey"), None);
        }
        let endings: Vec<_> = world.fake.chats().iter().map(|seen| seen.ending).collect();
        assert_eq!(endings, [RequestEnding::Completed; 2]);
    }
}

#[tokio::test]
async fn the_head_comes_at_admission_while_the_model_is_still_silent() {
    let world = Setup::of("fake,silence=3600s").start().await;
    for encoding in ENCODINGS {
        let session = world.session().await;
        let stream = world.stream(encoding, &question(&session)).await;
        let prompt = stream.prompt();
        assert_eq!(stream.header("x-session-id"), session);
        assert_eq!(stream.header("x-trace-id").len(), 32);
        assert_eq!(stream.header("cache-control"), "no-cache");
        assert_eq!(stream.header("x-accel-buffering"), "no");
        assert_eq!(world.look_at_prompt(&prompt).await["status"], "in-flight");
        let resumed = world.resume(encoding, &prompt, None).await;
        for name in ["x-prompt-id", "x-session-id", "cache-control", "x-accel-buffering"] {
            assert_eq!(resumed.header(name), stream.header(name));
        }
        assert_ne!(resumed.header("x-trace-id"), stream.header("x-trace-id"));
    }
}

#[tokio::test]
async fn a_burst_of_64_tokens_leaves_in_a_handful_of_writes() {
    for kind in KINDS {
        let world = Setup::new().provider("local", kind, "fake,tokens=64").start().await;
        for encoding in ENCODINGS {
            let answer = world.stream(encoding, &question(&world.session().await)).await.all().await;
            assert_eq!(answer.deltas.len(), 65);
            assert!(answer.chunks <= 4, "{kind:?} {encoding:?}: {} writes", answer.chunks);
        }
    }
}

#[tokio::test]
async fn tokens_leave_one_by_one_when_the_model_is_slow() {
    let (provider, mut calls) = ManualProvider::new("local", "scripted");
    let world = Setup::new().given("local", provider).start().await;
    for encoding in ENCODINGS {
        let mut stream = world.stream(encoding, &question(&world.session().await)).await;
        let call = calls.next().await;
        for token in ["one ", "by ", "one"] {
            call.text(token);
            assert_eq!(stream.tokens(1).await, token, "it is there before the next one is said");
        }
        call.finish();
        assert_eq!((stream.rest().await.len(), stream.chunks), (1, 4));
    }
}

#[tokio::test]
async fn silent_server_sent_events_get_a_comment_every_15_seconds() {
    const COMMENTS: u32 = 30;
    let world =
        Setup::of("fake,stall=1").limits(|limits| limits.stall = Duration::from_secs(3600)).start().await;
    let session = world.session().await;
    let mut stream = world.stream(Encoding::Sse, &question(&session)).await;
    stream.tokens(1).await;
    let silent_since = Instant::now();
    for _ in 0..COMMENTS {
        time_passes(Duration::from_secs(15)).await;
        assert_eq!(stream.chunk().await.as_deref(), Some(&b": keep-alive\n\n"[..]));
    }
    // One that came a second late each time would come later than a busy machine can explain.
    let waited = silent_since.elapsed();
    assert!(waited < Duration::from_secs(16) * COMMENTS, "{COMMENTS} comments in {waited:?}");
    world.cancel(&session, &stream.prompt()).await.no_content();
    assert_eq!(stream.rest().await.len(), 1, "no comment is a delta");
}

#[tokio::test]
async fn no_comment_comes_before_its_time_nor_where_tokens_flow() {
    let world = Setup::of("fake,tokens=4,pace=8s").start().await;
    let mut stream = world.stream(Encoding::Sse, &question(&world.session().await)).await;
    for _ in 0..4 {
        let chunk = String::from_utf8(stream.chunk().await.expect("the stream goes on")).unwrap();
        assert!(chunk.starts_with("id: "), "{chunk}");
        time_passes(Duration::from_secs(8)).await;
    }
}

#[tokio::test]
async fn newline_delimited_json_is_never_commented() {
    let world =
        Setup::of("fake,stall=1").limits(|limits| limits.stall = Duration::from_secs(3600)).start().await;
    let session = world.session().await;
    let mut stream = world.ask(&session).await;
    stream.tokens(1).await;
    time_passes(Duration::from_secs(300)).await;
    world.cancel(&session, &stream.prompt()).await.no_content();
    let chunk = String::from_utf8(stream.chunk().await.expect("the stream goes on")).unwrap();
    assert!(chunk.starts_with(r#"{"promptId""#) && chunk.contains(r#""type":"done""#), "{chunk}");
    assert_eq!(stream.chunk().await, None);
}

#[tokio::test]
async fn a_session_has_one_running_prompt() {
    let world = Setup::of("fake,stall=1").start().await;
    let session = world.session().await;
    let mut stream = world.ask(&session).await;
    stream.tokens(1).await;
    let refusal = world.try_ask(&question(&session)).await.refusal(409, "prompt_in_flight").await;
    assert_eq!(refusal["details"], json!({"promptId": stream.prompt()}));
    let mut elsewhere = world.ask(&world.session().await).await;
    elsewhere.tokens(1).await;
    world.cancel(&session, &stream.prompt()).await.no_content();
    world.ask(&session).await.tokens(1).await;
}

#[tokio::test]
async fn the_session_is_free_once_the_last_delta_was_seen() {
    let world = Setup::of("fake").limits(|limits| limits.concurrent_streams = 1).start().await;
    let session = world.session().await;
    for _ in 0..50 {
        let mut stream = world.ask(&session).await;
        while stream.next().await.expect("a terminal delta comes")["type"] == "token" {}
    }
}

#[tokio::test]
async fn a_question_follows_the_ones_before_it_in_its_session() {
    let world = Setup::of("fake,echo").start().await;
    let session = world.session().await;
    for prompt in ["first one", "second one"] {
        let body = json!({"sessionId": session, "prompt": prompt});
        assert_eq!(world.stream(Encoding::Ndjson, &body).await.all().await.text(), prompt);
    }
    let chats = world.fake.chats();
    let messages = chats[1].body["messages"].as_array().unwrap();
    let said: Vec<_> = messages[1..].iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["first one", "first one", "second one"]);
    let body = json!({"sessionId": world.session().await, "prompt": "alone"});
    world.stream(Encoding::Ndjson, &body).await.all().await;
    assert_eq!(world.fake.chats()[2].body["messages"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn unknown_fields_are_ignored_and_null_is_as_good_as_nothing() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
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
        world.stream(Encoding::Ndjson, &body).await.all().await.done("stop");
    }
}

#[tokio::test]
async fn a_body_is_json_whatever_its_content_type_says() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
    for content_type in
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8", "?"]
    {
        let call = Call::post_json(STREAM, &question(&session)).header("Content-Type", content_type);
        Stream::new(world.call(call).await, Encoding::Ndjson).await.all().await.done("stop");
    }
}

#[tokio::test]
async fn a_reader_that_stands_still_holds_nobody_up() {
    let setup = Setup::of("fake,tokens=40000").limits(|limits| limits.max_tokens = 40_000);
    let world = setup.start().await;
    let session = world.session().await;
    let still = world.ask(&session).await;
    let other = world.resume(Encoding::Ndjson, &still.prompt(), None).await.all().await;
    assert_eq!(other.deltas.len(), 40_001);
    let late = still.all().await;
    assert!(late.bytes == other.bytes, "the one that stood still reads the same");
}
