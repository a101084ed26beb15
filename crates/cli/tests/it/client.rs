//! A bare HTTP client. It speaks HTTP/1.0, where the body ends with the connection, so that a stream is read line by line
//! as it was written.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::binary::{Server, soon};

/// A response whose head is read.
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    body: BufReader<TcpStream>,
}

/// Starts a session and asks in it.
pub(crate) async fn ask(server: &Server, question: &str) -> Response {
    let session = post(server, "/api/generation/session", "", &json!({})).await.json().await;
    let prompt = json!({"sessionId": session["sessionId"], "prompt": question});
    let response = post(server, "/api/generation/stream", "", &prompt).await;
    assert_eq!(response.status, 200, "{}", response.head);
    response
}

/// Posts a JSON, with more header lines if a test wants some.
pub(crate) async fn post(server: &Server, path: &str, headers: &str, body: &Value) -> Response {
    let (body, host) = (body.to_string(), &server.address);
    let length = body.len();
    let head = format!("POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {length}\r\n{headers}\r\n");
    send(&server.address, &(head + &body)).await.expect("the server answers")
}

/// Gets a page; an error if the connection is refused or closed without a response.
pub(crate) async fn get(server: &Server, path: &str) -> io::Result<Response> {
    get_with(server, path, "").await
}

/// The same with more header lines.
pub(crate) async fn get_with(server: &Server, path: &str, headers: &str) -> io::Result<Response> {
    send(&server.address, &format!("GET {path} HTTP/1.0\r\nHost: {}\r\n{headers}\r\n", server.address)).await
}

/// Deletes something.
pub(crate) async fn delete(server: &Server, path: &str) -> io::Result<Response> {
    send(&server.address, &format!("DELETE {path} HTTP/1.0\r\nHost: {}\r\n\r\n", server.address)).await
}

/// Sends a request.
pub(crate) async fn send(address: &str, request: &str) -> io::Result<Response> {
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(request.as_bytes()).await?;
    let mut body = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = soon("a head", body.read_line(&mut head)).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
    Ok(Response { status, head, body })
}

impl Response {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.unwrap_or_else(|| panic!("no {name} in {}", self.head)).1
    }

    /// All whole lines until the stream ends or its connection breaks.
    pub(crate) async fn lines(mut self) -> String {
        let mut lines = String::new();
        loop {
            let before = lines.len();
            let read = soon("a line", self.body.read_line(&mut lines)).await;
            if !lines[before..].ends_with('\n') || read.is_err() {
                lines.truncate(before);
                return lines;
            }
        }
    }

    /// The next delta of a stream; none at its end.
    pub(crate) async fn delta(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = soon("a delta", self.body.read_line(&mut line)).await;
        (read.expect("the connection holds") > 0)
            .then(|| serde_json::from_str(&line).expect("a line is JSON"))
    }

    /// The rest of a stream: its text, and its last delta.
    pub(crate) async fn answer(mut self) -> (String, Value) {
        let (mut text, mut last) = (String::new(), Value::Null);
        while let Some(delta) = self.delta().await {
            assert_eq!(last.get("metadata"), None, "nothing comes after the end");
            text.push_str(delta["text"].as_str().unwrap_or_default());
            last = delta;
        }
        (text, last)
    }

    /// The body of a plain answer.
    pub(crate) async fn text(mut self) -> String {
        let mut body = String::new();
        let read = soon("a body", self.body.read_to_string(&mut body)).await;
        read.expect("the connection holds");
        body
    }

    /// The same as JSON.
    pub(crate) async fn json(self) -> Value {
        serde_json::from_str(&self.text().await).expect("a body is JSON")
    }
}
