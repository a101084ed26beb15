//! Documents that are being taken in: when their client leaves, when there are too many, when the server stops.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{DOCUMENTS, INGEST, document};
use crate::client::{Call, in_time};
use crate::harness::Setup;

/// A client that has sent a whole request, or only its head.
async fn send(address: SocketAddr, body: &str, length: usize) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("the server listens");
    let request =
        format!("POST {INGEST} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).await.expect("the server reads");
    socket
}

#[tokio::test]
async fn what_a_client_brought_is_taken_in_though_it_leaves() {
    // The embedder takes its time, so the client is gone before its documents have vectors.
    let world = Setup::of("fake").embedding_model("fake,silence=200ms").start().await;
    let body = json!({"documents": [document("a.md", "water runs down")]}).to_string();
    let client = send(world.address, &body, body.len()).await;
    in_time(world.fake.wait_until(|seen| seen.iter().any(|seen| !seen.texts().is_empty()))).await;
    drop(client);
    in_time(async {
        loop {
            let hits = world.query(&json!({"query": "water runs down"})).await;
            if hits.first().is_some_and(|hit| hit["similarityScore"].as_f64() > Some(0.5)) {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn more_requests_at_once_than_there_are_places_are_refused_until_one_ends() {
    let world = Setup::of("fake").start().await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(send(world.address, "", 100).await);
    }
    world.settle().await;
    let call = || Call::post_json(INGEST, &json!({"documents": [document("a.md", "water")]}));
    let refused = world.call(call()).await;
    assert!(refused.header("retry-after").is_some_and(|seconds| seconds != "0"));
    refused.refusal(503, "overloaded").await;
    world.get(DOCUMENTS).await.json(200).await;
    drop(clients);
    in_time(async { while world.call(call()).await.status != 200 {} }).await;
}

#[tokio::test]
async fn a_server_that_stops_tells_whoever_brings_documents() {
    let world = Setup::of("fake").embedding_model("fake,stall=0").start().await;
    let call = Call::post_json(INGEST, &json!({"documents": [document("a.md", "water")]}));
    let bringing = tokio::spawn(call.send(world.address));
    in_time(world.fake.wait_until(|seen| seen.iter().any(|seen| !seen.texts().is_empty()))).await;
    let stopped = world.stop();
    let answer = in_time(bringing).await.expect("a client does not panic");
    answer.refusal(503, "interrupted").await;
    stopped.await;
}
