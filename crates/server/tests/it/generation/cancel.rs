//! Cancelling: no token follows, the final delta comes at once, and the provider's call is closed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use testing::{RequestEnding, fake_text};
use tokio::sync::Barrier;

use crate::support::builder::{PROVIDER_KINDS, TestServerBuilder};
use crate::support::http::Request;
use crate::support::test_server::{CANCEL, TestServer};

#[tokio::test]
async fn a_cancelled_prompt_ends_with_a_cancelled_done() {
    for kind in PROVIDER_KINDS {
        let server = TestServerBuilder::new().provider("local", kind, "fake,stall=5").start().await;
        for reason in [json!(null), json!("user_initiated"), json!("timeout"), json!("error")] {
            let session = server.session().await;
            let mut stream = server.ask(&session).await;
            assert_eq!(stream.tokens(5).await, fake_text(5));
            let body = json!({"sessionId": session, "promptId": stream.prompt(), "reason": reason});
            server.call(Request::post_json(CANCEL, &body)).await.assert_no_content();
            let prompt = server.get_prompt(&stream.prompt()).await;
            assert_eq!((&prompt["status"], &prompt["tokenCount"]), (&json!("cancelled"), &json!(5)));
            let last = stream.rest().await;
            assert_eq!(last.len(), 1, "{last:?}");
            assert_eq!((&last[0]["type"], &last[0]["seq"]), (&json!("done"), &json!(5)));
            let done = &last[0]["metadata"];
            assert_eq!((&done["finishReason"], &done["cancelled"]), (&json!("cancelled"), &json!(true)));
            assert_eq!((&done["tokenCount"], &done["provider"]), (&json!(5), &json!("local")));
            assert_eq!(server.get_session(&session).await["status"], "active");
            server.ask(&session).await.tokens(5).await;
        }
        let calls = server
            .fake
            .wait_until(|seen| seen.iter().step_by(2).all(|seen| seen.ending == RequestEnding::Closed));
        assert_eq!(calls.await.len(), 8);
    }
}

#[tokio::test]
async fn a_prompt_may_be_cancelled_before_its_first_token() {
    for kind in PROVIDER_KINDS {
        let server = TestServerBuilder::new().provider("local", kind, "fake,silence=3600s").start().await;
        let session = server.session().await;
        let stream = server.ask(&session).await;
        server.fake.wait_until(|seen| seen.len() == 1).await;
        server.cancel(&session, &stream.prompt()).await.assert_no_content();
        let answer = stream.all().await;
        let done = answer.done("cancelled");
        assert_eq!((&done["tokenCount"], &done["provider"]), (&json!(0), &json!("local")));
        assert_eq!(server.wait_for_model_calls().await[0].ending, RequestEnding::Closed);
    }
}

#[tokio::test]
async fn a_prompt_that_does_not_run_in_the_session_cannot_be_cancelled() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let (session, other) = (server.session().await, server.session().await);
    let mut stream = server.ask(&session).await;
    stream.tokens(3).await;
    let prompt = stream.prompt();
    let unknown = "0190a0b0-0000-7000-8000-000000000001";
    for (session, prompt) in [
        (other.as_str(), prompt.as_str()),
        (unknown, &prompt),
        (&session, unknown),
        (&session, "p"),
        ("s", &prompt),
    ] {
        server.cancel(session, prompt).await.error(404, "prompt_not_found").await;
    }
    assert_eq!(server.get_prompt(&prompt).await["status"], "in-flight");
    server.cancel(&session, &prompt).await.assert_no_content();
    server.cancel(&session, &prompt).await.error(404, "prompt_not_found").await;
    assert_eq!(stream.rest().await.len(), 1);
}

#[tokio::test]
async fn cancelling_an_ended_prompt_changes_nothing() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    let answer = server.ask(&session).await.all().await;
    server.cancel(&session, &answer.prompt).await.error(404, "prompt_not_found").await;
    assert_eq!(server.get_prompt(&answer.prompt).await["status"], "done");
}

#[tokio::test]
async fn an_invalid_cancel_is_refused_and_cancels_nothing() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let session = server.session().await;
    let stream = server.ask(&session).await;
    let prompt = stream.prompt();
    for body in [
        json!({"sessionId": session, "promptId": prompt, "reason": "bored"}),
        json!({"sessionId": session, "promptId": prompt, "reason": 5}),
        json!({"sessionId": session}),
        json!({"promptId": prompt}),
        json!({"sessionId": session, "promptId": [prompt]}),
        json!([session, prompt]),
    ] {
        server.call(Request::post_json(CANCEL, &body)).await.error(400, "invalid_request").await;
    }
    assert_eq!(server.get_prompt(&prompt).await["status"], "in-flight");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_streams_cancelled_at_once_end_within_200_ms() {
    const STREAMS: usize = 100;
    for kind in PROVIDER_KINDS {
        let server = Arc::new(
            TestServerBuilder::new().provider("local", kind, "fake,tokens=2000,pace=20ms").start().await,
        );
        let all_run = Arc::new(Barrier::new(STREAMS));
        let streams = (0..STREAMS).map(|_| tokio::spawn(cancelled(server.clone(), all_run.clone())));
        let ended: Result<Vec<_>, _> = join_all(streams).await.into_iter().collect();
        let ended = ended.expect("every stream is cancelled");
        let after_call = percentiles(ended.iter().map(|ended| ended.after_call).collect());
        let after_answer = percentiles(ended.iter().map(|ended| ended.after_answer).collect());
        println!(
            "{kind:?}: the final delta came {after_call} after the cancel, {after_answer} after its 204"
        );
        assert!(ended.iter().all(|ended| ended.after_answer < Duration::from_millis(200)), "{after_answer}");
        let calls = server.wait_for_model_calls().await;
        assert_eq!(calls.len(), STREAMS);
        assert!(calls.iter().all(|seen| seen.ending == RequestEnding::Closed));
    }
}

/// The delay of the last delta, after the cancel request and after its response.
struct CancelDelay {
    after_call: Duration,
    after_answer: Duration,
}

/// Cancels a running stream.
async fn cancelled(server: Arc<TestServer>, all_run: Arc<Barrier>) -> CancelDelay {
    let session = server.session().await;
    let mut stream = server.ask(&session).await;
    let prompt = stream.prompt();
    stream.tokens(3).await;
    all_run.wait().await;
    let reading = tokio::spawn(async move { stream.rest_and_last_arrival().await });
    let called = Instant::now();
    server.cancel(&session, &prompt).await.assert_no_content();
    let answered = Instant::now();
    let (rest, ended) = reading.await.expect("reading does not panic");
    let (last, tokens) = rest.split_last().expect("a terminal delta comes");
    assert_eq!(last["metadata"]["cancelled"], true, "{last}");
    assert!(tokens.iter().all(|delta| delta["type"] == "token"));
    CancelDelay { after_call: ended - called, after_answer: ended.saturating_duration_since(answered) }
}

fn percentiles(mut delays: Vec<Duration>) -> String {
    delays.sort();
    let (half, most) = (delays[delays.len() / 2], delays[delays.len() * 99 / 100]);
    format!("{half:?} (p50) and {most:?} (p99)")
}
