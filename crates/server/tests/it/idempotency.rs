//! One key, one prompt: however often and however many ask.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::client::Call;
use crate::deltas::{ENCODINGS, Encoding, Stream};
use crate::harness::{Kind, Setup};
use crate::world::{STREAM, question, time_passes};

/// A question with a key.
fn keyed(session: &str, key: &str) -> Value {
    let mut body = question(session);
    body["idempotencyKey"] = json!(key);
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_clients_with_one_key_share_one_call() {
    let world = Arc::new(Setup::of("fake,tokens=40,pace=2ms").start().await);
    let body = keyed(&world.session().await, "k");
    let clients = (0..100).map(|_| {
        let (world, body) = (world.clone(), body.clone());
        tokio::spawn(async move { world.stream(Encoding::Ndjson, &body).await.all().await })
    });
    let answers: Vec<_> =
        join_all(clients).await.into_iter().map(|answer| answer.expect("no panic")).collect();
    let first = &answers[0];
    assert_eq!(first.done("stop")["idempotencyKey"], "k");
    for answer in &answers {
        assert_eq!(answer.prompt, first.prompt);
        assert!(answer.bytes == first.bytes, "every client reads the same bytes");
    }
    assert_eq!(world.fake.chats().len(), 1);
}

#[tokio::test]
async fn a_retry_joins_the_running_prompt_from_its_first_delta() {
    let world = Setup::of("fake,stall=5").start().await;
    let session = world.session().await;
    let body = keyed(&session, "k");
    let mut first = world.stream(Encoding::Ndjson, &body).await;
    first.tokens(5).await;
    for encoding in ENCODINGS {
        let mut second = world.stream(encoding, &body).await;
        assert_eq!(second.prompt(), first.prompt());
        second.tokens(5).await;
    }
    let second = world.stream(Encoding::Ndjson, &body).await;
    world.cancel(&session, &first.prompt()).await.no_content();
    assert_eq!(first.rest().await, second.all().await.deltas[5..]);
    assert_eq!(world.fake.chats().len(), 1);
}

#[tokio::test]
async fn success_and_a_clients_cancel_are_replayed() {
    let setup = Setup::of("fake").provider("slow", Kind::Ollama, "fake,stall=3").order(&["local"]);
    let world = setup.start().await;
    let session = world.session().await;
    let answered = world.stream(Encoding::Ndjson, &keyed(&session, "answered")).await.all().await;
    let mut body = keyed(&session, "cancelled");
    body["provider"] = json!("slow");
    let stream = world.stream(Encoding::Ndjson, &body).await;
    world.cancel(&session, &stream.prompt()).await.no_content();
    let cancelled = stream.all().await;
    let replayed = world.stream(Encoding::Ndjson, &keyed(&session, "answered")).await.all().await;
    assert_eq!((replayed.prompt, replayed.bytes), (answered.prompt, answered.bytes));
    let replayed = world.stream(Encoding::Ndjson, &body).await.all().await;
    assert_eq!((replayed.prompt, replayed.bytes), (cancelled.prompt, cancelled.bytes));
    assert_eq!(world.fake.chats().len(), 2);
    assert_eq!(world.look_at_session(&session).await["promptCount"], 2);
}

#[tokio::test]
async fn a_failure_that_may_pass_starts_one_new_prompt() {
    for model in ["fake,status=503", "fake,die=3", "fake,empty"] {
        let world = Setup::of(model).start().await;
        let body = keyed(&world.session().await, "k");
        let first = world.stream(Encoding::Ndjson, &body).await.all().await;
        assert_eq!(first.last()["metadata"]["retryable"], true);
        assert_eq!(first.last()["metadata"]["idempotencyKey"], "k");
        let second = world.stream(Encoding::Ndjson, &body).await.all().await;
        assert_ne!(second.prompt, first.prompt);
        assert_eq!(second.deltas.len(), first.deltas.len());
        assert_eq!(world.fake.chats().len(), 2);
        let old = world.resume(Encoding::Ndjson, &first.prompt, None).await.all().await;
        assert_eq!(old.bytes, first.bytes, "the first one is still there");
    }
}

#[tokio::test]
async fn a_failure_that_stays_is_replayed() {
    let world = Setup::of("fake,status=401").start().await;
    let body = keyed(&world.session().await, "k");
    let first = world.stream(Encoding::Ndjson, &body).await.all().await;
    first.error("provider_unavailable", false);
    let second = world.stream(Encoding::Ndjson, &body).await.all().await;
    assert_eq!((second.prompt, second.bytes), (first.prompt, first.bytes));
    assert_eq!(world.fake.chats().len(), 1);
}

#[tokio::test]
async fn a_prompt_that_its_readers_left_starts_anew() {
    let world = Setup::of("fake,stall=3").start().await;
    let body = keyed(&world.session().await, "k");
    let mut stream = world.stream(Encoding::Ndjson, &body).await;
    stream.tokens(3).await;
    let first = stream.prompt();
    drop(stream);
    let joined = world.stream(Encoding::Ndjson, &body).await;
    assert_eq!(joined.prompt(), first, "within the window the key joins");
    drop(joined);
    world.settle().await;
    time_passes(Duration::from_secs(20)).await;
    world.until_status(&first, "cancelled").await;
    assert_ne!(world.stream(Encoding::Ndjson, &body).await.prompt(), first);
}

#[tokio::test]
async fn the_key_may_come_in_the_header() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
    let ask = async |body: &Value, key: &str| {
        let call = Call::post_json(STREAM, body).header("Idempotency-Key", key);
        Stream::new(world.call(call).await, Encoding::Ndjson).await.all().await
    };
    let first = ask(&question(&session), "k").await;
    assert_eq!(first.done("stop")["idempotencyKey"], "k");
    assert_eq!(world.look_at_prompt(&first.prompt).await["idempotencyKey"], "k");
    assert_eq!(ask(&keyed(&session, "k"), "k").await.prompt, first.prompt);
    let in_body = world.stream(Encoding::Ndjson, &keyed(&session, "k")).await;
    assert_eq!(in_body.prompt(), first.prompt);
    let call = Call::post_json(STREAM, &keyed(&session, "k")).header("Idempotency-Key", "other");
    world.call(call).await.refusal(400, "invalid_request").await;
    let beyond_ascii = ask(&question(&session), "schlüssel").await;
    assert_eq!(ask(&keyed(&session, "schlüssel"), "schlüssel").await.prompt, beyond_ascii.prompt);
}

#[tokio::test]
async fn a_key_has_1_to_200_characters() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
    for key in ["k".to_owned(), "🙂".repeat(200)] {
        world.stream(Encoding::Ndjson, &keyed(&session, &key)).await.all().await;
    }
    for key in ["".to_owned(), "k".repeat(201)] {
        world.try_ask(&keyed(&session, &key)).await.refusal(400, "invalid_request").await;
        let call = Call::post_json(STREAM, &question(&session)).header("Idempotency-Key", key);
        world.call(call).await.refusal(400, "invalid_request").await;
    }
    let call = Call::post_json(STREAM, &question(&session)).header("Idempotency-Key", b"\xff\xfe".to_vec());
    world.call(call).await.refusal(400, "invalid_request").await;
}

#[tokio::test]
async fn a_key_with_another_request_is_refused() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
    let mut body = keyed(&session, "k");
    body["filters"] = json!({"title": ["a", "b"], "language": "rust"});
    let first = world.stream(Encoding::Ndjson, &body).await.all().await;
    for (name, value) in [
        ("prompt", json!("why not?")),
        ("topK", json!(6)),
        ("filters", json!({"title": ["a"], "language": "rust"})),
        ("filters", json!(null)),
        ("provider", json!("local")),
    ] {
        let mut other = body.clone();
        other[name] = value;
        world.try_ask(&other).await.refusal(422, "idempotency_key_reused").await;
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
        assert_eq!(world.stream(Encoding::Ndjson, &same).await.prompt(), first.prompt, "{same}");
    }
    assert_eq!(world.fake.chats().len(), 1);
}

#[tokio::test]
async fn a_key_with_another_request_is_refused_while_its_prompt_runs() {
    let world = Setup::of("fake,stall=3").start().await;
    let body = keyed(&world.session().await, "k");
    let _running = world.stream(Encoding::Ndjson, &body).await;
    let mut other = body.clone();
    other["topK"] = json!(6);
    world.try_ask(&other).await.refusal(422, "idempotency_key_reused").await;
}

#[tokio::test]
async fn validation_comes_before_the_key() {
    let world = Setup::of("fake").start().await;
    let body = keyed(&world.session().await, "k");
    world.stream(Encoding::Ndjson, &body).await.all().await;
    for (name, value) in [("prompt", json!(" ")), ("topK", json!(21)), ("provider", json!("nobody"))] {
        let mut invalid = body.clone();
        invalid[name] = value;
        world.try_ask(&invalid).await.refusal(400, "invalid_request").await;
    }
}

#[tokio::test]
async fn a_key_belongs_to_its_session() {
    let world = Setup::of("fake").start().await;
    let first = world.stream(Encoding::Ndjson, &keyed(&world.session().await, "k")).await.all().await;
    let second = world.stream(Encoding::Ndjson, &keyed(&world.session().await, "k")).await.all().await;
    assert_ne!(first.prompt, second.prompt);
    assert_eq!(world.fake.chats().len(), 2);
}

#[tokio::test]
async fn a_key_is_answered_in_a_session_that_has_ended() {
    let world = Setup::of("fake").start().await;
    let (ended, expired) = (world.session().await, world.session().await);
    let mut answers = Vec::new();
    for session in [&ended, &expired] {
        answers.push(world.stream(Encoding::Ndjson, &keyed(session, "k")).await.all().await);
    }
    world.end_session(&ended).await.no_content();
    time_passes(Duration::from_secs(3700)).await;
    for (session, answer) in [&ended, &expired].into_iter().zip(answers) {
        assert_eq!(world.look_at_session(session).await["status"], "completed");
        let again = world.stream(Encoding::Ndjson, &keyed(session, "k")).await.all().await;
        assert_eq!((again.prompt, again.bytes), (answer.prompt, answer.bytes));
        world.try_ask(&keyed(session, "new")).await.refusal(400, "session_not_found").await;
        assert_eq!(world.look_at_session(session).await["status"], "completed");
    }
}

#[tokio::test]
async fn a_failure_is_not_tried_again_in_a_session_that_has_ended() {
    let world = Setup::of("fake,status=503").start().await;
    let session = world.session().await;
    world.stream(Encoding::Ndjson, &keyed(&session, "k")).await.all().await;
    world.end_session(&session).await.no_content();
    world.try_ask(&keyed(&session, "k")).await.refusal(400, "session_not_found").await;
}
