//! Idempotency keys: one key, one prompt, however many clients ask and however often.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::builder::{ProviderKind, TestServerBuilder};
use crate::support::delta_stream::{DeltaStream, ENCODINGS, Encoding};
use crate::support::http::Request;
use crate::support::test_server::{STREAM, advance_time, question};

/// A question with a key.
fn keyed(session: &str, key: &str) -> Value {
    let mut body = question(session);
    body["idempotencyKey"] = json!(key);
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_clients_with_one_key_share_one_call() {
    let server = Arc::new(TestServerBuilder::with_model("fake,tokens=40,pace=2ms").start().await);
    let body = keyed(&server.session().await, "k");
    let clients = (0..100).map(|_| {
        let (server, body) = (server.clone(), body.clone());
        tokio::spawn(async move { server.stream(Encoding::Ndjson, &body).await.all().await })
    });
    let answers: Vec<_> =
        join_all(clients).await.into_iter().map(|answer| answer.expect("no panic")).collect();
    let first = &answers[0];
    assert_eq!(first.done("stop")["idempotencyKey"], "k");
    for answer in &answers {
        assert_eq!(answer.prompt, first.prompt);
        assert!(answer.bytes == first.bytes, "every client reads the same bytes");
    }
    assert_eq!(server.fake.chats().len(), 1);
}

#[tokio::test]
async fn a_retry_joins_the_running_prompt_from_its_first_delta() {
    let server = TestServerBuilder::with_model("fake,stall=5").start().await;
    let session = server.session().await;
    let body = keyed(&session, "k");
    let mut first = server.stream(Encoding::Ndjson, &body).await;
    first.tokens(5).await;
    for encoding in ENCODINGS {
        let mut second = server.stream(encoding, &body).await;
        assert_eq!(second.prompt(), first.prompt());
        second.tokens(5).await;
    }
    let second = server.stream(Encoding::Ndjson, &body).await;
    server.cancel(&session, &first.prompt()).await.assert_no_content();
    assert_eq!(first.rest().await, second.all().await.deltas[5..]);
    assert_eq!(server.fake.chats().len(), 1);
}

#[tokio::test]
async fn success_and_a_clients_cancel_are_replayed() {
    let builder = TestServerBuilder::with_model("fake")
        .provider("slow", ProviderKind::Ollama, "fake,stall=3")
        .order(&["local"]);
    let server = builder.start().await;
    let session = server.session().await;
    let answered = server.stream(Encoding::Ndjson, &keyed(&session, "answered")).await.all().await;
    let mut body = keyed(&session, "cancelled");
    body["provider"] = json!("slow");
    let stream = server.stream(Encoding::Ndjson, &body).await;
    server.fake.wait_until(|seen| seen.len() == 2).await;
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    let cancelled = stream.all().await;
    let replayed = server.stream(Encoding::Ndjson, &keyed(&session, "answered")).await.all().await;
    assert_eq!((replayed.prompt, replayed.bytes), (answered.prompt, answered.bytes));
    let replayed = server.stream(Encoding::Ndjson, &body).await.all().await;
    assert_eq!((replayed.prompt, replayed.bytes), (cancelled.prompt, cancelled.bytes));
    assert_eq!(server.fake.chats().len(), 2);
    assert_eq!(server.get_session(&session).await["promptCount"], 2);
}

#[tokio::test]
async fn a_key_after_a_retryable_failure_starts_a_new_prompt() {
    for model in ["fake,status=503", "fake,die=3", "fake,empty"] {
        let server = TestServerBuilder::with_model(model).start().await;
        let body = keyed(&server.session().await, "k");
        let first = server.stream(Encoding::Ndjson, &body).await.all().await;
        assert_eq!(first.last()["metadata"]["retryable"], true);
        assert_eq!(first.last()["metadata"]["idempotencyKey"], "k");
        let second = server.stream(Encoding::Ndjson, &body).await.all().await;
        assert_ne!(second.prompt, first.prompt);
        assert_eq!(second.deltas.len(), first.deltas.len());
        assert_eq!(server.fake.chats().len(), 2);
        let old = server.resume(Encoding::Ndjson, &first.prompt, None).await.all().await;
        assert_eq!(old.bytes, first.bytes, "the first prompt still exists");
    }
}

#[tokio::test]
async fn a_key_after_a_permanent_failure_replays_it() {
    let server = TestServerBuilder::with_model("fake,status=401").start().await;
    let body = keyed(&server.session().await, "k");
    let first = server.stream(Encoding::Ndjson, &body).await.all().await;
    first.error("provider_unavailable", false);
    let second = server.stream(Encoding::Ndjson, &body).await.all().await;
    assert_eq!((second.prompt, second.bytes), (first.prompt, first.bytes));
    assert_eq!(server.fake.chats().len(), 1);
}

#[tokio::test]
async fn a_key_after_an_abandoned_prompt_starts_a_new_one() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let body = keyed(&server.session().await, "k");
    let mut stream = server.stream(Encoding::Ndjson, &body).await;
    stream.tokens(3).await;
    let first = stream.prompt();
    drop(stream);
    let joined = server.stream(Encoding::Ndjson, &body).await;
    assert_eq!(joined.prompt(), first, "within the resume window the key joins");
    drop(joined);
    server.settle().await;
    advance_time(Duration::from_secs(20)).await;
    server.wait_for_status(&first, "cancelled").await;
    assert_ne!(server.stream(Encoding::Ndjson, &body).await.prompt(), first);
}

#[tokio::test]
async fn the_key_may_come_in_the_header() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    let ask = async |body: &Value, key: &str| {
        let request = Request::post_json(STREAM, body).header("Idempotency-Key", key);
        DeltaStream::new(server.call(request).await, Encoding::Ndjson).await.all().await
    };
    let first = ask(&question(&session), "k").await;
    assert_eq!(first.done("stop")["idempotencyKey"], "k");
    assert_eq!(server.get_prompt(&first.prompt).await["idempotencyKey"], "k");
    assert_eq!(ask(&keyed(&session, "k"), "k").await.prompt, first.prompt);
    let in_body = server.stream(Encoding::Ndjson, &keyed(&session, "k")).await;
    assert_eq!(in_body.prompt(), first.prompt);
    let request = Request::post_json(STREAM, &keyed(&session, "k")).header("Idempotency-Key", "other");
    server.call(request).await.error(400, "invalid_request").await;
    let beyond_ascii = ask(&question(&session), "schlüssel").await;
    assert_eq!(ask(&keyed(&session, "schlüssel"), "schlüssel").await.prompt, beyond_ascii.prompt);
}

#[tokio::test]
async fn a_key_has_1_to_200_characters() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    for key in ["k".to_owned(), "🙂".repeat(200)] {
        server.stream(Encoding::Ndjson, &keyed(&session, &key)).await.all().await;
    }
    for key in ["".to_owned(), "k".repeat(201)] {
        server.try_ask(&keyed(&session, &key)).await.error(400, "invalid_request").await;
        let request = Request::post_json(STREAM, &question(&session)).header("Idempotency-Key", key);
        server.call(request).await.error(400, "invalid_request").await;
    }
    let request =
        Request::post_json(STREAM, &question(&session)).header("Idempotency-Key", b"\xff\xfe".to_vec());
    server.call(request).await.error(400, "invalid_request").await;
}

#[tokio::test]
async fn a_key_with_another_request_is_refused() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    let mut body = keyed(&session, "k");
    body["filters"] = json!({"title": ["a", "b"], "language": "rust"});
    let first = server.stream(Encoding::Ndjson, &body).await.all().await;
    for (name, value) in [
        ("prompt", json!("why not?")),
        ("topK", json!(6)),
        ("filters", json!({"title": ["a"], "language": "rust"})),
        ("filters", json!(null)),
        ("provider", json!("local")),
    ] {
        let mut other = body.clone();
        other[name] = value;
        server.try_ask(&other).await.error(422, "idempotency_key_reused").await;
    }
    for (name, value) in [
        ("topK", json!(5)),
        ("topK", json!(null)),
        ("provider", json!(null)),
        ("filters", json!({"language": ["rust"], "title": ["b", "a", "a"]})),
        ("colour", json!("blue")),
    ] {
        let mut same = body.clone();
        same[name] = value;
        assert_eq!(server.stream(Encoding::Ndjson, &same).await.prompt(), first.prompt, "{same}");
    }
    assert_eq!(server.fake.chats().len(), 1);
}

#[tokio::test]
async fn a_key_with_another_request_is_refused_while_its_prompt_runs() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let body = keyed(&server.session().await, "k");
    let _running = server.stream(Encoding::Ndjson, &body).await;
    let mut other = body.clone();
    other["topK"] = json!(6);
    server.try_ask(&other).await.error(422, "idempotency_key_reused").await;
}

#[tokio::test]
async fn validation_comes_before_the_key() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let body = keyed(&server.session().await, "k");
    server.stream(Encoding::Ndjson, &body).await.all().await;
    for (name, value) in [("prompt", json!(" ")), ("topK", json!(21)), ("provider", json!("unknown"))] {
        let mut invalid = body.clone();
        invalid[name] = value;
        server.try_ask(&invalid).await.error(400, "invalid_request").await;
    }
}

#[tokio::test]
async fn a_key_belongs_to_its_session() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let first = server.stream(Encoding::Ndjson, &keyed(&server.session().await, "k")).await.all().await;
    let second = server.stream(Encoding::Ndjson, &keyed(&server.session().await, "k")).await.all().await;
    assert_ne!(first.prompt, second.prompt);
    assert_eq!(server.fake.chats().len(), 2);
}

#[tokio::test]
async fn a_key_is_answered_in_a_session_that_has_ended() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let (ended, expired) = (server.session().await, server.session().await);
    let mut answers = Vec::new();
    for session in [&ended, &expired] {
        answers.push(server.stream(Encoding::Ndjson, &keyed(session, "k")).await.all().await);
    }
    server.end_session(&ended).await.assert_no_content();
    advance_time(Duration::from_secs(3700)).await;
    for (session, answer) in [&ended, &expired].into_iter().zip(answers) {
        assert_eq!(server.get_session(session).await["status"], "completed");
        let again = server.stream(Encoding::Ndjson, &keyed(session, "k")).await.all().await;
        assert_eq!((again.prompt, again.bytes), (answer.prompt, answer.bytes));
        server.try_ask(&keyed(session, "new")).await.error(400, "session_not_found").await;
        assert_eq!(server.get_session(session).await["status"], "completed");
    }
}

#[tokio::test]
async fn a_failure_is_not_tried_again_in_a_session_that_has_ended() {
    let server = TestServerBuilder::with_model("fake,status=503").start().await;
    let session = server.session().await;
    server.stream(Encoding::Ndjson, &keyed(&session, "k")).await.all().await;
    server.end_session(&session).await.assert_no_content();
    server.try_ask(&keyed(&session, "k")).await.error(400, "session_not_found").await;
}
