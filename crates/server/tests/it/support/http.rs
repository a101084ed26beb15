//! A minimal HTTP/1.1 client that exposes every chunk of a body and can disconnect anywhere.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, split};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::api_description::DescribedResponse;

/// How long anything that should come at once may take on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A request before it is sent.
#[derive(Clone)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: None }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path)
    }

    pub(crate) fn post(path: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { body: Some(body.into()), ..Self::new("POST", path) }
    }

    pub(crate) fn post_json(path: impl Into<String>, body: &Value) -> Self {
        Self::post(path, body.to_string())
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends the request over its own connection and waits for the head of the response.
    pub(crate) async fn send(self, address: SocketAddr) -> Response {
        let mut response = send_raw(address, self.render(address)).await;
        response.description = DescribedResponse::find(self.method, &self.path, response.status);
        response
    }

    fn render(&self, address: SocketAddr) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let mut request = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        let mut line = |name: &str, value: &[u8]| {
            request.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        };
        if !has("host") {
            line("Host", address.to_string().as_bytes());
        }
        if let Some(body) = &self.body
            && !has("transfer-encoding")
        {
            line("Content-Length", body.len().to_string().as_bytes());
        }
        self.headers.iter().for_each(|(name, value)| line(name, value));
        request.extend(b"\r\n");
        request.extend(self.body.as_deref().unwrap_or_default());
        request
    }
}

/// Sends these bytes unchanged and waits for the head of the response.
pub(crate) async fn send_raw(address: SocketAddr, request: Vec<u8>) -> Response {
    let (reading, mut writing) = split(TcpStream::connect(address).await.expect("the server listens"));
    // The server may respond before it has read everything, as with a body that is too large.
    tokio::spawn(async move { writing.write_all(&request).await });
    Response::read(BufReader::new(reading)).await
}

/// A response whose head has arrived. Dropping it closes the connection, as a killed client does.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    reading: BufReader<ReadHalf<TcpStream>>,
    /// The description that the body must match.
    description: Option<DescribedResponse>,
}

impl Response {
    pub(crate) async fn read(mut reading: BufReader<ReadHalf<TcpStream>>) -> Self {
        let mut lines = Vec::new();
        loop {
            let line = with_timeout(read_line(&mut reading)).await.expect("a head is complete");
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let status = lines[0].split(' ').nth(1).and_then(|status| status.parse().ok());
        let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
        Self {
            status: status.expect("a head begins with a status"),
            headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect(),
            reading,
            description: None,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The next chunk of a chunked body; `None` at its proper end.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        with_timeout(async {
            let length = read_line(&mut self.reading).await?;
            let length = usize::from_str_radix(&length, 16).map_err(io::Error::other)?;
            let mut chunk = vec![0; length + 2];
            self.reading.read_exact(&mut chunk).await?;
            chunk.truncate(length);
            Ok((length > 0).then_some(chunk))
        })
        .await
    }

    /// The complete body.
    pub(crate) async fn body(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        if let Some(length) = self.header("content-length") {
            body.resize(length.parse().expect("a length is a number"), 0);
            with_timeout(self.reading.read_exact(&mut body)).await.expect("a body is complete");
        } else if self.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await.expect("a body is complete") {
                body.extend(chunk);
            }
        }
        if let Some(description) = &self.description {
            description.check(self.header("content-type"), &body);
        }
        body
    }

    /// The body as JSON, of a response that must have this status.
    pub(crate) async fn json(self, status: u16) -> Value {
        let (got, content_type) = (self.status, self.header("content-type").map(str::to_owned));
        let body = self.body().await;
        let text = String::from_utf8_lossy(&body);
        assert_eq!(got, status, "{text}");
        assert_eq!(content_type.as_deref(), Some("application/json"), "{text}");
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The body of a response that must be an error of the generation dialect, with the trace id of its
    /// header.
    pub(crate) async fn error(self, status: u16, code: &str) -> Value {
        let trace = self.header("x-trace-id").expect("every response has a trace id").to_owned();
        let body = self.json(status).await;
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["traceId"], trace, "{body}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
        for (name, value) in body.as_object().expect("an error is an object") {
            assert!(["code", "message", "details", "traceId"].contains(&name.as_str()), "{body}");
            assert!(!value.is_null(), "{body}");
        }
        body
    }

    /// Checks that the status is 204.
    #[track_caller]
    pub(crate) fn assert_no_content(self) {
        assert_eq!(self.status, 204);
        assert!(self.header("x-trace-id").is_some());
    }
}

/// The output of a future that should complete at once; panics otherwise.
#[track_caller]
pub(crate) fn with_timeout<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        timeout(TIMEOUT, future).await.unwrap_or_else(|_| panic!("{caller}: no output within {TIMEOUT:?}"))
    }
}

async fn read_line(reading: &mut BufReader<ReadHalf<TcpStream>>) -> io::Result<String> {
    let mut line = String::new();
    if reading.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}
