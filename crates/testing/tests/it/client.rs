//! A minimal HTTP client that exposes each write of a body, and whether the body ended properly.

use serde_json::{Value, json};
use testing::FakeModel;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The chat paths of both APIs.
pub(crate) const APIS: [&str; 2] = ["/v1/chat/completions", "/api/chat"];

/// A response whose headers have arrived.
pub(crate) struct Answer {
    socket: BufReader<TcpStream>,
    pub(crate) status: u16,
    headers: String,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) writes: Vec<Vec<u8>>,
    /// False if the connection broke off.
    pub(crate) ended_properly: bool,
}

/// Sends a chat request with a streamed answer.
pub(crate) async fn ask(fake: &FakeModel, path: &str, model: &str) -> Answer {
    let messages = json!([{"role": "user", "content": "why does water run down?"}]);
    post(fake, path, &json!({"model": model, "stream": true, "messages": messages})).await
}

/// Sends a chat request and reads the streamed answer to its end.
pub(crate) async fn ask_all(fake: &FakeModel, path: &str, model: &str) -> Body {
    ask(fake, path, model).await.body().await
}

pub(crate) async fn post(fake: &FakeModel, path: &str, body: &Value) -> Answer {
    let mut socket = connect(fake).await;
    send(&mut socket, path, body).await;
    Answer::read(socket).await
}

pub(crate) async fn get(fake: &FakeModel, path: &str) -> (u16, Value) {
    let mut socket = connect(fake).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: fake\r\nAuthorization: Bearer secret\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let answer = Answer::read(socket).await;
    (answer.status, answer.body().await.json())
}

pub(crate) async fn connect(fake: &FakeModel) -> TcpStream {
    TcpStream::connect(fake.url().trim_start_matches("http://")).await.unwrap()
}

pub(crate) async fn send(socket: &mut TcpStream, path: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let request = format!("POST {path} HTTP/1.1\r\nHost: fake\r\nContent-Length: {length}\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).await.unwrap();
}

impl Answer {
    async fn read(socket: TcpStream) -> Self {
        let mut socket = BufReader::new(socket);
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            assert_ne!(socket.read_line(&mut headers).await.unwrap(), 0, "no head but {headers:?}");
        }
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        Self { socket, status, headers }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The next write; `None` at the end, an error if the connection breaks off.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut length = String::new();
        self.socket.read_line(&mut length).await?;
        let length = usize::from_str_radix(length.trim(), 16).map_err(std::io::Error::other)?;
        let mut chunk = vec![0; length + 2];
        self.socket.read_exact(&mut chunk).await?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    pub(crate) async fn body(mut self) -> Body {
        if let Some(length) = self.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            let read = self.socket.read_exact(&mut body).await;
            return Body { writes: vec![body], ended_properly: read.is_ok() };
        }
        let mut writes = Vec::new();
        loop {
            match self.next().await {
                Ok(Some(write)) => writes.push(write),
                Ok(None) => return Body { writes, ended_properly: true },
                Err(_) => return Body { writes, ended_properly: false },
            }
        }
    }
}

impl Body {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.writes.concat()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    /// The JSON text of each server-sent event or line.
    pub(crate) fn frames(&self) -> Vec<String> {
        let text = String::from_utf8(self.bytes()).unwrap();
        let frames = text.lines().filter(|line| !line.is_empty() && !line.starts_with("id: "));
        frames.map(|line| line.strip_prefix("data: ").unwrap_or(line).to_owned()).collect()
    }

    /// The parsed frames, without OpenAI's `[DONE]`.
    pub(crate) fn json_frames(&self) -> Vec<Value> {
        let frames = self.frames().into_iter().filter(|frame| frame != "[DONE]");
        frames.map(|frame| serde_json::from_str(&frame).unwrap()).collect()
    }

    /// The text of the answer.
    pub(crate) fn text(&self) -> String {
        let frames = self.json_frames();
        frames.iter().filter_map(|frame| content(frame, "content")).collect()
    }
}

/// The text that a frame of either API adds to the answer.
pub(crate) fn content<'a>(frame: &'a Value, field: &str) -> Option<&'a str> {
    frame["choices"][0]["delta"][field].as_str().or(frame["message"][field].as_str())
}
