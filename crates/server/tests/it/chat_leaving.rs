//! A client of the chat dialects that leaves cancels its prompt at once: the model stops, and the session is free.

use std::future::pending;
use std::time::{Duration, Instant};

use testing::RequestEnding;
use tokio::task::JoinHandle;

use crate::client::Call;
use crate::harness::{KINDS, Setup};
use crate::talk::{CHAT, CHAT_STREAM, Dialect, finding, pages};
use crate::world::World;

/// How soon the provider sees that nobody wants its answer any more.
const AT_ONCE: Duration = Duration::from_millis(200);

const WAYS: [(&str, Dialect); 3] =
    [(CHAT, Dialect::Chat), (CHAT_STREAM, Dialect::Chat), (CHAT_STREAM, Dialect::Staged)];

/// A client that asks and reads nothing but the head of a stream, until it is aborted. A plain answer has no head
/// before its end.
fn client(world: &World, path: &str, dialect: Dialect, session: &str) -> JoinHandle<()> {
    let asking = Call::post_json(path, &dialect.body(session)).send(world.address);
    tokio::spawn(async move {
        let _answer = asking.await;
        pending::<()>().await;
    })
}

/// Waits until the newest of so many calls has said three tokens.
async fn until_the_model_speaks(world: &World, calls: usize) {
    let speaks = |seen: &testing::RecordedRequest| seen.tokens == 3;
    world.fake.wait_until(|seen| seen.len() == calls && seen.back().is_some_and(speaks)).await;
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_provider_sees_within_200_ms_that_the_client_has_left() {
    for kind in KINDS {
        let world = Setup::new().provider("local", kind, "fake,stall=3").retriever(pages(1)).start().await;
        for (calls, (path, dialect)) in (1..).zip(WAYS) {
            let session = world.session().await;
            let client = client(&world, path, dialect, &session);
            until_the_model_speaks(&world, calls).await;
            let left = Instant::now();
            client.abort();
            let closed = |seen: &testing::RecordedRequest| seen.ending == RequestEnding::Closed;
            world.fake.wait_until(|seen| seen.back().is_some_and(closed)).await;
            let after = left.elapsed();
            println!("{kind:?} {path} {dialect:?}: the provider saw it after {after:?}");
            assert!(after < AT_ONCE, "{kind:?} {path} {dialect:?}: {after:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_request_in_the_session_is_admitted_at_once() {
    let world = finding("fake,stall=3", 1).start().await;
    let mut calls = 0;
    for (path, dialect) in WAYS {
        for next in [Dialect::Chat, Dialect::Staged] {
            let session = world.session().await;
            let client = client(&world, path, dialect, &session);
            until_the_model_speaks(&world, calls + 1).await;
            client.abort();
            let stream = world.talk(next, &next.body(&session)).await;
            until_the_model_speaks(&world, calls + 2).await;
            calls += 2;
            let prompts = world.get(&format!("/api/sessions/{session}/prompts")).await.json(200).await;
            let statuses: Vec<_> = prompts["prompts"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|prompt| &prompt["status"])
                .collect();
            assert_eq!(statuses, ["cancelled", "in-flight"], "{path} {dialect:?}, then {next:?}");
            drop(stream);
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_token_cancels_too() {
    let world = finding("fake,silence=3600s", 1).start().await;
    for (calls, (path, dialect)) in (1..).zip(WAYS) {
        let session = world.session().await;
        let client = client(&world, path, dialect, &session);
        world.fake.wait_until(|seen| seen.len() == calls).await;
        world.settle().await;
        client.abort();
        world.until_calls_ended().await;
        let prompts = world.get(&format!("/api/sessions/{session}/prompts")).await.json(200).await;
        let prompt = prompts["prompts"][0]["promptId"].as_str().expect("there is one").to_owned();
        world.until_status(&prompt, "cancelled").await;
    }
}
