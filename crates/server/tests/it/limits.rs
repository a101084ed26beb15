//! What there is too much of is refused at the door, or ended in good order.

use std::time::Duration;

use serde_json::{Value, json};
use testing::{RequestEnding, fake_text};

use crate::client::{Answer, Call};
use crate::deltas::Encoding;
use crate::harness::{KINDS, Setup};
use crate::world::{CANCEL, SESSION, STREAM, World, question, time_passes};

/// Checks that there is no room and when there may be some.
async fn check_overloaded(answer: Answer) {
    let wait = answer.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
    assert!(wait >= Some(1), "it says when to ask again: {wait:?}");
    answer.refusal(503, "overloaded").await;
}

async fn ask_with(world: &World, name: &str, value: Value) -> Answer {
    let mut body = question(&world.session().await);
    body[name] = value;
    world.try_ask(&body).await
}

#[tokio::test]
async fn one_stream_too_many_is_refused_until_one_has_ended() {
    let world = Setup::of("fake,stall=3").limits(|limits| limits.concurrent_streams = 2).start().await;
    let (first, second, third) = (world.session().await, world.session().await, world.session().await);
    let mut running = world.ask(&first).await;
    let mut other = world.ask(&second).await;
    running.tokens(3).await;
    other.tokens(3).await;
    check_overloaded(world.try_ask(&question(&third)).await).await;
    assert_eq!(world.look_at_session(&third).await["promptCount"], 0);
    world.cancel(&first, &running.prompt()).await.no_content();
    world.ask(&third).await.tokens(3).await;
}

#[tokio::test]
async fn readers_that_join_take_no_stream() {
    let world = Setup::of("fake,stall=3").limits(|limits| limits.concurrent_streams = 1).start().await;
    let mut body = question(&world.session().await);
    body["idempotencyKey"] = json!("k");
    let first = world.stream(Encoding::Ndjson, &body).await;
    for _ in 0..3 {
        assert_eq!(world.stream(Encoding::Ndjson, &body).await.prompt(), first.prompt());
        world.resume(Encoding::Sse, &first.prompt(), None).await.tokens(3).await;
    }
    body["topK"] = json!(6);
    world.try_ask(&body).await.refusal(422, "idempotency_key_reused").await;
}

#[tokio::test]
async fn one_reader_too_many_is_refused_until_one_has_left() {
    let world = Setup::of("fake,stall=3").limits(|limits| limits.readers = 2).start().await;
    let mut first = world.ask(&world.session().await).await;
    first.tokens(3).await;
    let prompt = first.prompt();
    let second = world.resume(Encoding::Ndjson, &prompt, None).await;
    check_overloaded(world.get(&format!("/api/generation/prompts/{prompt}/stream")).await).await;
    check_overloaded(world.try_ask(&question(&world.session().await)).await).await;
    drop(second);
    world.settle().await;
    world.resume(Encoding::Ndjson, &prompt, None).await.tokens(3).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let world = Setup::of("fake").settings(|settings| settings.body_bytes = 2_000).start().await;
    let session = world.session().await;
    let body_of = |length: usize| {
        let mut body = question(&session).to_string();
        body.extend(std::iter::repeat_n(' ', length - body.len()));
        body
    };
    assert_eq!(world.call(Call::post(STREAM, body_of(2_000))).await.status, 200);
    for path in [STREAM, SESSION, CANCEL] {
        for length in [2_001, 100_000] {
            let refusal =
                world.call(Call::post(path, body_of(length))).await.refusal(413, "body_too_large").await;
            assert!(refusal["message"].as_str().unwrap().contains("limits.body_bytes"), "{refusal}");
        }
        let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", 2_001, body_of(2_001));
        let call = Call::post(path, chunked).header("Transfer-Encoding", "chunked");
        world.call(call).await.refusal(413, "body_too_large").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_far_too_much_is_told_so_all_the_same() {
    let world = Setup::of("fake").start().await;
    for _ in 0..10 {
        let call = Call::post(STREAM, vec![b' '; 16 << 20]);
        world.call(call).await.refusal(413, "body_too_large").await;
    }
}

#[tokio::test]
async fn a_question_is_measured_in_characters() {
    let world = Setup::of("fake").limits(|limits| limits.question_chars = 100).start().await;
    let fits = ask_with(&world, "prompt", json!("🙂".repeat(100))).await;
    assert_eq!(fits.status, 200);
    let too_long = ask_with(&world, "prompt", json!("a".repeat(101))).await;
    let refusal = too_long.refusal(400, "invalid_request").await;
    assert!(refusal["message"].as_str().unwrap().contains("limits.question_chars"), "{refusal}");
}

#[tokio::test]
async fn an_answer_ends_at_its_bound_on_tokens() {
    for kind in KINDS {
        let setup = Setup::new().provider("local", kind, "fake,tokens=1000,pace=1ms");
        let world = setup.limits(|limits| limits.max_tokens = 10).start().await;
        let answer = world.ask(&world.session().await).await.all().await;
        assert_eq!(answer.text(), fake_text(10));
        answer.done("length");
        let calls = world.until_calls_ended().await;
        assert_eq!(calls[0].ending, RequestEnding::Closed);
        let asked_for = (&calls[0].body["max_tokens"], &calls[0].body["options"]["num_predict"]);
        assert!(asked_for.0 == 10 || asked_for.1 == 10, "{:?}", calls[0].body);
    }
}

#[tokio::test]
async fn an_answer_that_just_fits_is_not_cut() {
    for kind in KINDS {
        let setup = Setup::new().provider("local", kind, "fake,tokens=10");
        let world = setup.limits(|limits| limits.max_tokens = 10).start().await;
        let answer = world.ask(&world.session().await).await.all().await;
        assert_eq!(answer.done("stop")["tokenCount"], 10);
    }
}

#[tokio::test]
async fn an_answer_ends_at_its_bound_on_time() {
    for (model, said) in [("fake,stall=5", 5), ("fake,silence=3600s", 0)] {
        let setup = Setup::of(model).first_token(Duration::from_secs(3600));
        let world = setup.limits(|limits| limits.stall = Duration::from_secs(3600)).start().await;
        let stream = world.ask(&world.session().await).await;
        world.until_said(&stream.prompt(), said).await;
        time_passes(Duration::from_secs(590)).await;
        assert_eq!(world.look_at_prompt(&stream.prompt()).await["status"], "in-flight");
        time_passes(Duration::from_secs(20)).await;
        let answer = stream.all().await;
        assert_eq!(answer.text(), fake_text(said as u64));
        if said > 0 {
            answer.done("length");
        } else {
            answer.error("provider_timeout", true);
        }
        assert_eq!(world.until_calls_ended().await[0].ending, RequestEnding::Closed);
    }
}
