//! Clients that leave: their prompt waits for them a while, and is in nobody's way.

use std::time::Duration;

use serde_json::json;
use testing::{RequestEnding, fake_text};

use crate::deltas::{ENCODINGS, Encoding};
use crate::dice::soak;
use crate::harness::{KINDS, Setup};
use crate::world::{World, question, time_passes};

const SECOND: Duration = Duration::from_secs(1);

/// A prompt that has sent three tokens and whose only client has left, which the server knows.
async fn left(world: &World, session: &str) -> String {
    let mut stream = world.ask(session).await;
    stream.tokens(3).await;
    let prompt = stream.prompt();
    drop(stream);
    world.settle().await;
    prompt
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_and_asks_again_at_once_is_answered() {
    for kind in KINDS {
        for model in ["fake,silence=3600s", "fake,tokens=1000,pace=1ms", "fake,stall=3"] {
            let world = Setup::new().provider("local", kind, model).start().await;
            let session = world.session().await;
            for encoding in ENCODINGS {
                for round in 0..soak(10, 200) {
                    let mut stream = world.stream(encoding, &question(&session)).await;
                    if model != "fake,silence=3600s" && round % 2 == 0 {
                        stream.tokens(1).await;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn the_prompt_of_a_client_that_left_goes_on_for_the_resume_window() {
    let world = Setup::of("fake,stall=3").start().await;
    let session = world.session().await;
    let prompt = left(&world, &session).await;
    time_passes(5 * SECOND).await;
    assert_eq!(world.look_at_prompt(&prompt).await["status"], "in-flight");
    time_passes(10 * SECOND).await;
    let ended = world.until_status(&prompt, "cancelled").await;
    assert_eq!(ended["tokenCount"], 3);
    assert_eq!(world.until_calls_ended().await[0].ending, RequestEnding::Closed);
    let log = world.resume(Encoding::Ndjson, &prompt, None).await.all().await;
    assert_eq!(log.text(), fake_text(3));
    log.done("cancelled");
    assert_eq!(world.look_at_session(&session).await["status"], "active");
}

#[tokio::test]
async fn a_client_that_comes_back_in_time_keeps_its_prompt() {
    let world = Setup::of("fake,stall=3").limits(|limits| limits.stall = 3600 * SECOND).start().await;
    let session = world.session().await;
    let prompt = left(&world, &session).await;
    for encoding in ENCODINGS {
        time_passes(5 * SECOND).await;
        let back = world.resume(encoding, &prompt, Some(2)).await;
        time_passes(60 * SECOND).await;
        assert_eq!(world.look_at_prompt(&prompt).await["status"], "in-flight");
        drop(back);
        world.settle().await;
    }
    time_passes(16 * SECOND).await;
    world.until_status(&prompt, "cancelled").await;
}

#[tokio::test]
async fn a_prompt_is_not_abandoned_while_anyone_reads_it() {
    let world = Setup::of("fake,stall=3").limits(|limits| limits.stall = 3600 * SECOND).start().await;
    let session = world.session().await;
    let first = world.ask(&session).await;
    let prompt = first.prompt();
    let mut second = world.resume(Encoding::Sse, &prompt, None).await;
    second.tokens(3).await;
    drop(first);
    time_passes(60 * SECOND).await;
    world.try_ask(&question(&session)).await.refusal(409, "prompt_in_flight").await;
    assert_eq!(world.look_at_prompt(&prompt).await["status"], "in-flight");
}

#[tokio::test]
async fn an_answer_that_ends_within_the_window_is_whole_when_its_client_comes_back() {
    let world = Setup::of("fake,tokens=30,pace=2ms").start().await;
    let stream = world.ask(&world.session().await).await;
    let prompt = stream.prompt();
    drop(stream);
    world.until_status(&prompt, "done").await;
    let answer = world.resume(Encoding::Ndjson, &prompt, None).await.all().await;
    assert_eq!(answer.text(), fake_text(30));
    answer.done("stop");
}

#[tokio::test]
async fn a_prompt_that_nobody_reads_yields_to_its_session_at_once() {
    let world = Setup::of("fake,stall=3").start().await;
    let session = world.session().await;
    let prompt = left(&world, &session).await;
    let mut next = world.ask(&session).await;
    next.tokens(3).await;
    assert_ne!(next.prompt(), prompt);
    assert_eq!(world.look_at_prompt(&prompt).await["status"], "cancelled");
}

#[tokio::test]
async fn the_oldest_prompt_that_nobody_reads_yields_its_slot() {
    let world = Setup::of("fake,stall=3").limits(|limits| limits.concurrent_streams = 3).start().await;
    let mut read = world.ask(&world.session().await).await;
    read.tokens(3).await;
    let older = left(&world, &world.session().await).await;
    let younger = left(&world, &world.session().await).await;
    world.ask(&world.session().await).await.tokens(3).await;
    let status = async |prompt: &str| world.look_at_prompt(prompt).await["status"].clone();
    assert_eq!(status(&read.prompt()).await, json!("in-flight"));
    assert_eq!(status(&older).await, json!("cancelled"));
    assert_eq!(status(&younger).await, json!("in-flight"));
}
