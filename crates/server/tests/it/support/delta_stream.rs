//! A stream of deltas as a client reads it. Every delta and its framing are checked on the way.

use std::time::Instant;

use serde_json::Value;

use crate::support::delta_contract::{check_delta, check_whole};
use crate::support::http::Response;

pub(crate) const ENCODINGS: [Encoding; 2] = [Encoding::Ndjson, Encoding::Sse];

/// The framing of deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Ndjson,
    Sse,
}

impl Encoding {
    /// The media type of requests and responses.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Sse => "text/event-stream",
        }
    }

    /// Takes the first complete frame off the bytes, if there is one. Comments are skipped.
    fn take_frame(self, bytes: &mut &[u8]) -> Option<Value> {
        let end: &[u8] = if self == Self::Ndjson { b"\n" } else { b"\n\n" };
        loop {
            let length = bytes.windows(end.len()).position(|window| window == end)? + end.len();
            let (frame, rest) = bytes.split_at(length);
            *bytes = rest;
            let frame = str::from_utf8(frame).expect("a frame is UTF-8");
            match self {
                Self::Ndjson => return Some(serde_json::from_str(frame).expect("a line is JSON")),
                Self::Sse if frame.starts_with(':') => {}
                Self::Sse => return Some(event_data(frame)),
            }
        }
    }
}

/// The data of a server-sent event, which its `id` and `event` must match.
fn event_data(frame: &str) -> Value {
    let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event has data");
    let delta: Value = serde_json::from_str(data).expect("an event's data is JSON");
    let kind = delta["type"].as_str().expect("a delta has a type");
    assert_eq!(frame, format!("id: {}\nevent: {kind}\ndata: {data}\n\n", delta["seq"]));
    delta
}

/// A response that streams deltas.
pub(crate) struct DeltaStream {
    response: Response,
    encoding: Encoding,
    /// All bytes read.
    bytes: Vec<u8>,
    /// How many of them were parsed as deltas.
    taken: usize,
    pub(crate) chunks: usize,
}

impl DeltaStream {
    /// Reads a response that must be a stream in this encoding.
    pub(crate) async fn new(response: Response, encoding: Encoding) -> Self {
        let status = response.status;
        if status != 200 {
            panic!("{status} {}", String::from_utf8_lossy(&response.body().await));
        }
        assert_eq!(response.header("content-type"), Some(encoding.media_type()));
        Self { response, encoding, bytes: Vec::new(), taken: 0, chunks: 0 }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.response.header(name).unwrap_or_else(|| panic!("there is no header {name}"))
    }

    pub(crate) fn prompt(&self) -> String {
        self.header("x-prompt-id").to_owned()
    }

    /// The next delta; `None` at the proper end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let mut rest = &self.bytes[self.taken..];
            if let Some(delta) = self.encoding.take_frame(&mut rest) {
                self.taken = self.bytes.len() - rest.len();
                check_delta(&delta);
                assert_eq!(delta["promptId"], self.header("x-prompt-id"));
                return Some(delta);
            }
            if !self.read().await {
                assert_eq!(self.bytes[self.taken..], *b"", "a stream ends with a complete delta");
                return None;
            }
        }
    }

    /// The next `count` tokens, joined.
    pub(crate) async fn tokens(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let delta = self.next().await.expect("the stream continues");
            text.push_str(delta["text"].as_str().unwrap_or_else(|| panic!("no token but {delta}")));
        }
        text
    }

    /// The remaining deltas, to the proper end.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut deltas = Vec::new();
        while let Some(delta) = self.next().await {
            deltas.push(delta);
        }
        deltas
    }

    /// The same, with the time of the last one: nothing is parsed before everything has arrived.
    pub(crate) async fn rest_and_last_arrival(&mut self) -> (Vec<Value>, Instant) {
        let mut when = Instant::now();
        while self.read().await {
            when = Instant::now();
        }
        let deltas = parse(self.encoding, &self.bytes[self.taken..]);
        deltas.iter().for_each(check_delta);
        (deltas, when)
    }

    /// The complete stream, from its first delta.
    pub(crate) async fn all(mut self) -> Transcript {
        let deltas = self.rest().await;
        check_whole(&deltas);
        Transcript { prompt: self.prompt(), chunks: self.chunks, bytes: self.bytes, deltas }
    }

    /// The terminal delta of the rest.
    pub(crate) async fn last(mut self) -> Value {
        let last = self.rest().await.pop().expect("a stream has a last delta");
        assert_ne!(last["type"], "token", "{last}");
        last
    }

    /// Disconnects after this many bytes, or at the end. Returns the complete frames among them and whether
    /// the stream had ended.
    pub(crate) async fn cut_after(mut self, bytes: usize) -> (Vec<u8>, bool) {
        while self.bytes.len() < bytes {
            if !self.read().await {
                return (self.bytes, true);
            }
        }
        self.bytes.truncate(bytes);
        let mut rest = &self.bytes[..];
        while self.encoding.take_frame(&mut rest).is_some() {}
        let whole = self.bytes.len() - rest.len();
        self.bytes.truncate(whole);
        (self.bytes, false)
    }

    /// The next bytes as they arrive; `None` at the proper end.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        self.response.chunk().await.expect("a stream ends properly")
    }

    async fn read(&mut self) -> bool {
        let Some(chunk) = self.chunk().await else { return false };
        self.chunks += 1;
        self.bytes.extend(chunk);
        true
    }
}

/// A stream read to its end.
pub(crate) struct Transcript {
    pub(crate) prompt: String,
    pub(crate) chunks: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) deltas: Vec<Value>,
}

impl Transcript {
    /// The text of the response.
    pub(crate) fn text(&self) -> String {
        text_of(&self.deltas)
    }

    /// The terminal delta.
    pub(crate) fn last(&self) -> &Value {
        self.deltas.last().expect("a complete stream has a terminal delta")
    }

    /// The metadata of the terminal delta, which must be a `done` with this reason.
    #[track_caller]
    pub(crate) fn done(&self, finish_reason: &str) -> &Value {
        let last = self.last();
        assert_eq!(last["metadata"]["finishReason"], finish_reason, "{last}");
        &last["metadata"]
    }

    /// The metadata of the terminal delta, which must be this error.
    #[track_caller]
    pub(crate) fn error(&self, code: &str, retryable: bool) -> &Value {
        let last = self.last();
        assert_eq!(last["metadata"]["code"], code, "{last}");
        assert_eq!(last["metadata"]["retryable"], retryable, "{last}");
        &last["metadata"]
    }
}

/// The texts of the deltas, joined.
pub(crate) fn text_of(deltas: &[Value]) -> String {
    deltas.iter().filter_map(|delta| delta["text"].as_str()).collect()
}

/// Parses a complete body.
pub(crate) fn parse(encoding: Encoding, mut bytes: &[u8]) -> Vec<Value> {
    let deltas = std::iter::from_fn(|| encoding.take_frame(&mut bytes)).collect();
    assert_eq!(bytes, b"", "complete frames only");
    deltas
}
