//! A scripted model server: raw bytes over a real socket, one connection after the other.

use std::time::Duration;

use domain::{Failure, ModelEvent, Provider, Request};
use futures::StreamExt;
use providers::HttpProviderSettings;
use serde_json::Value;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The test's handle on the server.
pub(crate) struct FakeServer {
    pub(crate) url: String,
    requests: mpsc::UnboundedReceiver<Received>,
    closed: mpsc::UnboundedReceiver<()>,
}

/// The server's reaction to the request of one connection.
pub(crate) enum Reply {
    /// Sends this and closes the connection.
    Whole(String),
    /// Sends this and waits until the client closes the connection.
    Open(String),
    /// Answers each request of one connection with these parts, each sent separately.
    Kept(Vec<[String; 2]>),
}

/// A request that the server received.
pub(crate) struct Received {
    /// Request line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl FakeServer {
    /// Answers one connection per reply, in this order.
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (request_sender, requests) = mpsc::unbounded_channel();
        let (closed_sender, closed) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for reply in replies {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = request_sender.send(read_request(&mut socket).await);
                match reply {
                    Reply::Kept(answers) => {
                        for (index, parts) in answers.into_iter().enumerate() {
                            if index > 0 {
                                let _ = request_sender.send(read_request(&mut socket).await);
                            }
                            for part in parts {
                                socket.write_all(part.as_bytes()).await.unwrap();
                                tokio::task::yield_now().await;
                            }
                        }
                    }
                    Reply::Whole(bytes) => socket.write_all(bytes.as_bytes()).await.unwrap(),
                    Reply::Open(bytes) => {
                        socket.write_all(bytes.as_bytes()).await.unwrap();
                        while socket.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
                        let _ = closed_sender.send(());
                    }
                }
            }
        });
        Self { url, requests, closed }
    }

    /// Waits for the next request.
    pub(crate) async fn request(&mut self) -> Received {
        self.requests.recv().await.unwrap()
    }

    /// Waits until a client has closed an open connection.
    pub(crate) async fn closed(&mut self) {
        self.closed.recv().await.unwrap();
    }
}

async fn read_request(socket: &mut TcpStream) -> Received {
    let mut bytes = Vec::new();
    loop {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request broke off");
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        let body = &bytes[end + 4..];
        if body.len() >= length {
            return Received { head, body: body.to_vec() };
        }
    }
}

/// A whole response, with its length.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> Reply {
    Reply::Whole(format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

/// The beginning of a response with chunked encoding.
pub(crate) fn begin_of_stream(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len())
}

/// A whole response with chunked encoding.
pub(crate) fn streamed(body: &str) -> Reply {
    Reply::Whole(format!("{}0\r\n\r\n", begin_of_stream(body)))
}

/// Settings for a provider named `local` at this address.
pub(crate) fn settings(base_url: &str) -> HttpProviderSettings {
    HttpProviderSettings {
        name: "local".to_owned(),
        base_url: base_url.to_owned(),
        model: Some("tiny".to_owned()),
        api_key: None,
        context_window: 4096,
        connect: Duration::from_secs(5),
        proxy: None,
    }
}

/// An address without a listener.
pub(crate) async fn dead_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

pub(crate) fn question() -> Arc<Request> {
    Arc::new(Request { question: "Why?".to_owned(), max_tokens: 64, ..Request::default() })
}

/// Reads an answer to its end.
pub(crate) async fn ask(provider: &dyn Provider) -> Vec<Result<ModelEvent, Failure>> {
    provider.stream(question()).collect().await
}

/// The text of an answer that ended well.
pub(crate) async fn words(provider: &dyn Provider) -> String {
    let mut words = String::new();
    for event in ask(provider).await {
        if let ModelEvent::Text(text) = event.unwrap() {
            words.push_str(&text);
        }
    }
    words
}

/// The failure of an answer without any event before it.
pub(crate) async fn failure(provider: &dyn Provider) -> Failure {
    let mut events = ask(provider).await;
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0).unwrap_err()
}
