//! A disconnect in the chat dialects cancels the prompt at once: the model stops, and the session is free.

use std::future::pending;
use std::time::{Duration, Instant};

use testing::RequestEnding;
use tokio::task::JoinHandle;

use crate::support::builder::{PROVIDER_KINDS, TestServerBuilder};
use crate::support::chat_client::{CHAT, CHAT_STREAM, Dialect, retriever_finding, server_finding};
use crate::support::http::Request;
use crate::support::test_server::TestServer;

/// How soon the provider notices the disconnect.
const AT_ONCE: Duration = Duration::from_millis(200);

const ENDPOINTS: [(&str, Dialect); 3] =
    [(CHAT, Dialect::Chat), (CHAT_STREAM, Dialect::Chat), (CHAT_STREAM, Dialect::Staged)];

/// A client that asks and reads only the head of a stream, until it is aborted. A complete answer has no head
/// before its end.
fn client(server: &TestServer, path: &str, dialect: Dialect, session: &str) -> JoinHandle<()> {
    let asking = Request::post_json(path, &dialect.body(session)).send(server.address);
    tokio::spawn(async move {
        let _answer = asking.await;
        pending::<()>().await;
    })
}

/// Waits until the newest of this many calls has generated three tokens.
async fn wait_for_three_tokens(server: &TestServer, calls: usize) {
    let has_three = |seen: &testing::RecordedRequest| seen.tokens == 3;
    server.fake.wait_until(|seen| seen.len() == calls && seen.back().is_some_and(has_three)).await;
    server.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnect_reaches_the_provider_within_200_ms() {
    for kind in PROVIDER_KINDS {
        let server = TestServerBuilder::new()
            .provider("local", kind, "fake,stall=3")
            .retriever(retriever_finding(1))
            .start()
            .await;
        for (calls, (path, dialect)) in (1..).zip(ENDPOINTS) {
            let session = server.session().await;
            let client = client(&server, path, dialect, &session);
            wait_for_three_tokens(&server, calls).await;
            let disconnected = Instant::now();
            client.abort();
            let closed = |seen: &testing::RecordedRequest| seen.ending == RequestEnding::Closed;
            server.fake.wait_until(|seen| seen.back().is_some_and(closed)).await;
            let after = disconnected.elapsed();
            println!("{kind:?} {path} {dialect:?}: the provider noticed after {after:?}");
            assert!(after < AT_ONCE, "{kind:?} {path} {dialect:?}: {after:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_request_in_the_session_is_admitted_at_once() {
    let server = server_finding("fake,stall=3", 1).start().await;
    let mut calls = 0;
    for (path, dialect) in ENDPOINTS {
        for next in [Dialect::Chat, Dialect::Staged] {
            let session = server.session().await;
            let client = client(&server, path, dialect, &session);
            wait_for_three_tokens(&server, calls + 1).await;
            client.abort();
            let stream = server.chat_stream(next, &next.body(&session)).await;
            wait_for_three_tokens(&server, calls + 2).await;
            calls += 2;
            let prompts = server.get(&format!("/api/sessions/{session}/prompts")).await.json(200).await;
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
async fn a_disconnect_before_the_first_token_cancels_the_prompt() {
    let server = server_finding("fake,silence=3600s", 1).start().await;
    for (calls, (path, dialect)) in (1..).zip(ENDPOINTS) {
        let session = server.session().await;
        let client = client(&server, path, dialect, &session);
        server.fake.wait_until(|seen| seen.len() == calls).await;
        server.settle().await;
        client.abort();
        server.wait_for_model_calls().await;
        let prompts = server.get(&format!("/api/sessions/{session}/prompts")).await.json(200).await;
        let prompt = prompts["prompts"][0]["promptId"].as_str().expect("the session has a prompt").to_owned();
        server.wait_for_status(&prompt, "cancelled").await;
    }
}
