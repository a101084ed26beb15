//! An HTTP client that costs next to nothing: raw sockets and the least parsing.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response while it arrives.
pub struct Response {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Response {
    /// Sends a request; `body` is JSON, or empty. The response's body is chunked if it is a stream.
    pub async fn to(address: &str, method: &str, path: &str, accept: &str, body: &str) -> Self {
        Self::by("HTTP/1.1", address, method, path, accept, body).await
    }

    /// Sends a request over HTTP/1.0, so that the response's body is never chunked.
    pub async fn unchunked(address: &str, method: &str, path: &str, accept: &str, body: &str) -> Self {
        Self::by("HTTP/1.0", address, method, path, accept, body).await
    }

    async fn by(version: &str, address: &str, method: &str, path: &str, accept: &str, body: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let length = body.len();
        let request = format!(
            "{method} {path} {version}\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.expect("the server reads");
        Self { stream, buffer: Vec::with_capacity(256 * 1024) }
    }

    /// Reads more bytes; none at the end.
    pub async fn more(&mut self) -> &[u8] {
        self.buffer.clear();
        self.stream.read_buf(&mut self.buffer).await.expect("the server writes");
        &self.buffer
    }

    /// Reads until `text` has arrived; returns everything read.
    pub async fn until(&mut self, text: &str) -> String {
        let mut all = String::new();
        while !all.contains(text) {
            let more = String::from_utf8_lossy(self.more().await).into_owned();
            assert!(!more.is_empty(), "the response ended without {text:?}: {all}");
            all.push_str(&more);
        }
        all
    }

    /// Reads to the end.
    pub async fn whole(mut self) -> String {
        let mut all = Vec::new();
        self.stream.read_to_end(&mut all).await.expect("the server writes");
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Calls the server and returns the JSON of its response.
pub async fn call(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let response = Response::unchunked(address, method, path, "*/*", &body.to_string()).await.whole().await;
    let (head, body) = response.split_once("\r\n\r\n").expect("a response has a body");
    assert!(
        head.split(' ').nth(1).is_some_and(|status| status.starts_with('2')),
        "{method} {path}: {response}"
    );
    serde_json::from_str(body).expect("the body is JSON")
}

/// Starts a session.
pub async fn session(address: &str) -> String {
    let response = Response::to(address, "POST", "/api/generation/session", "*/*", "").await.whole().await;
    let body = response.split_once("\r\n\r\n").expect("a response has a body").1;
    let session: Value = serde_json::from_str(body).expect("the body is JSON");
    session["sessionId"].as_str().expect("a session has an id").to_owned()
}

/// Asks in a session.
pub async fn ask(address: &str, session: &str, accept: &str) -> Response {
    ask_about(address, session, accept, "Why is the sky blue?").await
}

/// Asks something in a session.
pub async fn ask_about(address: &str, session: &str, accept: &str, question: &str) -> Response {
    let body = serde_json::json!({ "sessionId": session, "prompt": question }).to_string();
    Response::to(address, "POST", "/api/generation/stream", accept, &body).await
}

/// The value of a response header.
pub fn header<'a>(response: &'a str, name: &str) -> &'a str {
    let line = response.lines().find_map(|line| line.strip_prefix(name)).expect("the header is there");
    line.trim_start_matches(':').trim()
}

/// The p-th percentile, in milliseconds.
pub fn percentile(sorted: &[f64], p: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a short list")]
    let index = ((sorted.len() - 1) as f64 * p / 100.0).round() as usize;
    sorted[index]
}
