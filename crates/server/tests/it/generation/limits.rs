//! Limits: what exceeds one is refused at admission, or ends in an orderly way.

use std::time::Duration;

use serde_json::{Value, json};
use testing::{RequestEnding, fake_text};

use crate::support::builder::{PROVIDER_KINDS, TestServerBuilder};
use crate::support::delta_stream::Encoding;
use crate::support::http::{Request, Response};
use crate::support::test_server::{CANCEL, SESSION, STREAM, TestServer, advance_time, question};

/// Checks an overload error and its `Retry-After`.
async fn check_overloaded(answer: Response) {
    let wait = answer.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
    assert!(wait >= Some(1), "a time to retry: {wait:?}");
    answer.error(503, "overloaded").await;
}

async fn ask_with(server: &TestServer, name: &str, value: Value) -> Response {
    let mut body = question(&server.session().await);
    body[name] = value;
    server.try_ask(&body).await
}

#[tokio::test]
async fn a_stream_beyond_the_limit_is_refused_until_one_ends() {
    let server = TestServerBuilder::with_model("fake,stall=3")
        .limits(|limits| limits.concurrent_streams = 2)
        .start()
        .await;
    let (first, second, third) = (server.session().await, server.session().await, server.session().await);
    let mut running = server.ask(&first).await;
    let mut other = server.ask(&second).await;
    running.tokens(3).await;
    other.tokens(3).await;
    check_overloaded(server.try_ask(&question(&third)).await).await;
    assert_eq!(server.get_session(&third).await["promptCount"], 0);
    server.cancel(&first, &running.prompt()).await.assert_no_content();
    server.ask(&third).await.tokens(3).await;
}

#[tokio::test]
async fn readers_that_join_do_not_count_as_streams() {
    let server = TestServerBuilder::with_model("fake,stall=3")
        .limits(|limits| limits.concurrent_streams = 1)
        .start()
        .await;
    let mut body = question(&server.session().await);
    body["idempotencyKey"] = json!("k");
    let first = server.stream(Encoding::Ndjson, &body).await;
    for _ in 0..3 {
        assert_eq!(server.stream(Encoding::Ndjson, &body).await.prompt(), first.prompt());
        server.resume(Encoding::Sse, &first.prompt(), None).await.tokens(3).await;
    }
    body["topK"] = json!(6);
    server.try_ask(&body).await.error(422, "idempotency_key_reused").await;
}

#[tokio::test]
async fn a_reader_beyond_the_limit_is_refused_until_one_leaves() {
    let server =
        TestServerBuilder::with_model("fake,stall=3").limits(|limits| limits.readers = 2).start().await;
    let mut first = server.ask(&server.session().await).await;
    first.tokens(3).await;
    let prompt = first.prompt();
    let second = server.resume(Encoding::Ndjson, &prompt, None).await;
    check_overloaded(server.get(&format!("/api/generation/prompts/{prompt}/stream")).await).await;
    check_overloaded(server.try_ask(&question(&server.session().await)).await).await;
    drop(second);
    server.settle().await;
    server.resume(Encoding::Ndjson, &prompt, None).await.tokens(3).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let server =
        TestServerBuilder::with_model("fake").settings(|settings| settings.body_bytes = 2_000).start().await;
    let session = server.session().await;
    let body_of = |length: usize| {
        let mut body = question(&session).to_string();
        body.extend(std::iter::repeat_n(' ', length - body.len()));
        body
    };
    assert_eq!(server.call(Request::post(STREAM, body_of(2_000))).await.status, 200);
    for path in [STREAM, SESSION, CANCEL] {
        for length in [2_001, 100_000] {
            let error =
                server.call(Request::post(path, body_of(length))).await.error(413, "body_too_large").await;
            assert!(error["message"].as_str().unwrap().contains("limits.body_bytes"), "{error}");
        }
        let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", 2_001, body_of(2_001));
        let request = Request::post(path, chunked).header("Transfer-Encoding", "chunked");
        server.call(request).await.error(413, "body_too_large").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_far_too_much_still_reads_the_error() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for _ in 0..10 {
        let request = Request::post(STREAM, vec![b' '; 16 << 20]);
        server.call(request).await.error(413, "body_too_large").await;
    }
}

#[tokio::test]
async fn the_limit_of_a_question_counts_characters() {
    let server =
        TestServerBuilder::with_model("fake").limits(|limits| limits.question_chars = 100).start().await;
    let fits = ask_with(&server, "prompt", json!("🙂".repeat(100))).await;
    assert_eq!(fits.status, 200);
    let too_long = ask_with(&server, "prompt", json!("a".repeat(101))).await;
    let error = too_long.error(400, "invalid_request").await;
    assert!(error["message"].as_str().unwrap().contains("limits.question_chars"), "{error}");
}

#[tokio::test]
async fn an_answer_ends_at_its_bound_on_tokens() {
    for kind in PROVIDER_KINDS {
        let builder = TestServerBuilder::new().provider("local", kind, "fake,tokens=1000,pace=1ms");
        let server = builder.limits(|limits| limits.max_tokens = 10).start().await;
        let answer = server.ask(&server.session().await).await.all().await;
        assert_eq!(answer.text(), fake_text(10));
        answer.done("length");
        let calls = server.wait_for_model_calls().await;
        assert_eq!(calls[0].ending, RequestEnding::Closed);
        let asked_for = (&calls[0].body["max_tokens"], &calls[0].body["options"]["num_predict"]);
        assert!(asked_for.0 == 10 || asked_for.1 == 10, "{:?}", calls[0].body);
    }
}

#[tokio::test]
async fn an_answer_that_just_fits_is_not_cut() {
    for kind in PROVIDER_KINDS {
        let builder = TestServerBuilder::new().provider("local", kind, "fake,tokens=10");
        let server = builder.limits(|limits| limits.max_tokens = 10).start().await;
        let answer = server.ask(&server.session().await).await.all().await;
        assert_eq!(answer.done("stop")["tokenCount"], 10);
    }
}

#[tokio::test]
async fn an_answer_ends_at_its_bound_on_time() {
    for (model, tokens) in [("fake,stall=5", 5), ("fake,silence=3600s", 0)] {
        let builder = TestServerBuilder::with_model(model).first_token(Duration::from_secs(3600));
        let server = builder.limits(|limits| limits.stall = Duration::from_secs(3600)).start().await;
        let stream = server.ask(&server.session().await).await;
        server.wait_until_generated(&stream.prompt(), tokens).await;
        advance_time(Duration::from_secs(590)).await;
        assert_eq!(server.get_prompt(&stream.prompt()).await["status"], "in-flight");
        advance_time(Duration::from_secs(20)).await;
        let answer = stream.all().await;
        assert_eq!(answer.text(), fake_text(tokens as u64));
        if tokens > 0 {
            answer.done("length");
        } else {
            answer.error("provider_timeout", true);
        }
        assert_eq!(server.wait_for_model_calls().await[0].ending, RequestEnding::Closed);
    }
}
