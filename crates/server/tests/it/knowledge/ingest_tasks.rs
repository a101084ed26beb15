//! Running ingest requests: disconnects, the bound on them, and shutdown.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{DOCUMENTS, INGEST, document};
use crate::support::builder::TestServerBuilder;
use crate::support::http::{Request, with_timeout};

/// Sends a complete request, or only its head.
async fn send(address: SocketAddr, body: &str, length: usize) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("the server listens");
    let request =
        format!("POST {INGEST} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).await.expect("the server reads");
    socket
}

#[tokio::test]
async fn an_ingest_completes_after_its_client_disconnects() {
    // The embedder is slow, so the client is gone before its documents have vectors.
    let server = TestServerBuilder::with_model("fake").embedding_model("fake,silence=200ms").start().await;
    let body = json!({"documents": [document("a.md", "water runs down")]}).to_string();
    let client = send(server.address, &body, body.len()).await;
    with_timeout(server.fake.wait_until(|seen| seen.iter().any(|seen| !seen.texts().is_empty()))).await;
    drop(client);
    with_timeout(async {
        loop {
            let hits = server.query(&json!({"query": "water runs down"})).await;
            if hits.first().is_some_and(|hit| hit["similarityScore"].as_f64() > Some(0.0)) {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn ingest_requests_beyond_the_bound_are_refused() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(send(server.address, "", 100).await);
    }
    server.settle().await;
    let request = || Request::post_json(INGEST, &json!({"documents": [document("a.md", "water")]}));
    let refused = server.call(request()).await;
    assert!(refused.header("retry-after").is_some_and(|seconds| seconds != "0"));
    refused.error(503, "overloaded").await;
    server.get(DOCUMENTS).await.json(200).await;
    drop(clients);
    with_timeout(async { while server.call(request()).await.status != 200 {} }).await;
}

#[tokio::test]
async fn shutdown_interrupts_ingest_requests() {
    let server = TestServerBuilder::with_model("fake").embedding_model("fake,stall=0").start().await;
    let request = Request::post_json(INGEST, &json!({"documents": [document("a.md", "water")]}));
    let ingesting = tokio::spawn(request.send(server.address));
    with_timeout(server.fake.wait_until(|seen| seen.iter().any(|seen| !seen.texts().is_empty()))).await;
    let stopped = server.stop();
    let answer = with_timeout(ingesting).await.expect("a client does not panic");
    answer.error(503, "interrupted").await;
    stopped.await;
}
