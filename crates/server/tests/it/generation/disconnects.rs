//! Disconnects: a prompt runs on for the resume window, and yields to new prompts meanwhile.

use std::time::Duration;

use serde_json::json;
use testing::{RequestEnding, fake_text};

use crate::support::builder::{PROVIDER_KINDS, TestServerBuilder};
use crate::support::delta_stream::{ENCODINGS, Encoding};
use crate::support::seeded_random::soak;
use crate::support::test_server::{TestServer, advance_time, question};

const SECOND: Duration = Duration::from_secs(1);

/// A prompt that has sent three tokens and whose only client has disconnected, which the server has noticed.
async fn abandoned(server: &TestServer, session: &str) -> String {
    let mut stream = server.ask(session).await;
    stream.tokens(3).await;
    let prompt = stream.prompt();
    drop(stream);
    server.settle().await;
    prompt
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_disconnects_and_asks_again_at_once_is_admitted() {
    // What the first prompt of a process initializes can take longer than admission waits for a disconnect.
    let server = TestServerBuilder::with_model("fake").start().await;
    server.ask(&server.session().await).await.all().await;
    for kind in PROVIDER_KINDS {
        for model in ["fake,silence=3600s", "fake,tokens=1000,pace=1ms", "fake,stall=3"] {
            let server = TestServerBuilder::new().provider("local", kind, model).start().await;
            let session = server.session().await;
            for encoding in ENCODINGS {
                for round in 0..soak(10, 200) {
                    let mut stream = server.stream(encoding, &question(&session)).await;
                    if model != "fake,silence=3600s" && round % 2 == 0 {
                        stream.tokens(1).await;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_prompt_runs_on_for_the_resume_window_after_a_disconnect() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let session = server.session().await;
    let prompt = abandoned(&server, &session).await;
    advance_time(5 * SECOND).await;
    assert_eq!(server.get_prompt(&prompt).await["status"], "in-flight");
    advance_time(10 * SECOND).await;
    let ended = server.wait_for_status(&prompt, "cancelled").await;
    assert_eq!(ended["tokenCount"], 3);
    assert_eq!(server.wait_for_model_calls().await[0].ending, RequestEnding::Closed);
    let log = server.resume(Encoding::Ndjson, &prompt, None).await.all().await;
    assert_eq!(log.text(), fake_text(3));
    log.done("cancelled");
    assert_eq!(server.get_session(&session).await["status"], "active");
}

#[tokio::test]
async fn a_client_that_resumes_in_time_keeps_its_prompt() {
    let server = TestServerBuilder::with_model("fake,stall=3")
        .limits(|limits| limits.stall = 3600 * SECOND)
        .start()
        .await;
    let session = server.session().await;
    let prompt = abandoned(&server, &session).await;
    for encoding in ENCODINGS {
        advance_time(5 * SECOND).await;
        let back = server.resume(encoding, &prompt, Some(2)).await;
        advance_time(60 * SECOND).await;
        assert_eq!(server.get_prompt(&prompt).await["status"], "in-flight");
        drop(back);
        server.settle().await;
    }
    advance_time(16 * SECOND).await;
    server.wait_for_status(&prompt, "cancelled").await;
}

#[tokio::test]
async fn a_prompt_is_not_abandoned_while_it_has_a_reader() {
    let server = TestServerBuilder::with_model("fake,stall=3")
        .limits(|limits| limits.stall = 3600 * SECOND)
        .start()
        .await;
    let session = server.session().await;
    let first = server.ask(&session).await;
    let prompt = first.prompt();
    let mut second = server.resume(Encoding::Sse, &prompt, None).await;
    second.tokens(3).await;
    drop(first);
    advance_time(60 * SECOND).await;
    server.try_ask(&question(&session)).await.error(409, "prompt_in_flight").await;
    assert_eq!(server.get_prompt(&prompt).await["status"], "in-flight");
}

#[tokio::test]
async fn an_answer_that_ends_within_the_window_is_complete_when_resumed() {
    let server = TestServerBuilder::with_model("fake,tokens=30,pace=2ms").start().await;
    let stream = server.ask(&server.session().await).await;
    let prompt = stream.prompt();
    drop(stream);
    server.wait_for_status(&prompt, "done").await;
    let answer = server.resume(Encoding::Ndjson, &prompt, None).await.all().await;
    assert_eq!(answer.text(), fake_text(30));
    answer.done("stop");
}

#[tokio::test]
async fn a_prompt_without_readers_yields_to_the_next_prompt_of_its_session() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let session = server.session().await;
    let prompt = abandoned(&server, &session).await;
    let mut next = server.ask(&session).await;
    next.tokens(3).await;
    assert_ne!(next.prompt(), prompt);
    assert_eq!(server.get_prompt(&prompt).await["status"], "cancelled");
}

#[tokio::test]
async fn the_oldest_prompt_without_readers_yields_its_slot() {
    let server = TestServerBuilder::with_model("fake,stall=3")
        .limits(|limits| limits.concurrent_streams = 3)
        .start()
        .await;
    let mut read = server.ask(&server.session().await).await;
    read.tokens(3).await;
    let older = abandoned(&server, &server.session().await).await;
    let younger = abandoned(&server, &server.session().await).await;
    server.ask(&server.session().await).await.tokens(3).await;
    let status = async |prompt: &str| server.get_prompt(prompt).await["status"].clone();
    assert_eq!(status(&read.prompt()).await, json!("in-flight"));
    assert_eq!(status(&older).await, json!("cancelled"));
    assert_eq!(status(&younger).await, json!("in-flight"));
}
