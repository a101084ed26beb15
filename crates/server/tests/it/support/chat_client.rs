//! Requests in the chat dialects. Every reply, event and error is checked against the published models on the
//! way.

use serde_json::{Value, json};
use testing::{ScriptedRetriever, passage};

use crate::support::builder::TestServerBuilder;
use crate::support::chat_contract::check;
use crate::support::http::{Request, Response};
use crate::support::test_server::TestServer;

pub(crate) const CHAT: &str = "/chat";
pub(crate) const CHAT_STREAM: &str = "/chat/stream";

/// A server whose retriever finds `count` passages. Without any, the chat dialect calls no model.
pub(crate) fn server_finding(model: &str, count: usize) -> TestServerBuilder {
    TestServerBuilder::with_model(model).retriever(retriever_finding(count))
}

/// A retriever that finds `count` passages.
pub(crate) fn retriever_finding(count: usize) -> ScriptedRetriever {
    let page = |number| passage(&format!("Page {number}"), "Water runs down.");
    ScriptedRetriever::finding((0..count).map(page).collect())
}

/// The dialect of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Chat,
    Staged,
}

impl Dialect {
    /// The field of the question.
    pub(crate) fn question(self) -> &'static str {
        match self {
            Self::Chat => "query",
            Self::Staged => "message",
        }
    }

    /// The body of a question in the session.
    pub(crate) fn body(self, session: &str) -> Value {
        json!({self.question(): "why does water run down?", "session_id": session})
    }

    /// The published model of an event.
    fn model(self, event: &Value) -> &'static str {
        match (self, event["type"].as_str().unwrap_or_default()) {
            (Self::Staged, _) => "StreamEvent",
            (Self::Chat, "chunk") => "StreamChunk",
            (Self::Chat, "sources") => "StreamSources",
            (Self::Chat, "done") => "StreamDone",
            (Self::Chat, _) => "StreamError",
        }
    }
}

impl TestServer {
    /// Asks without streaming and expects an answer.
    pub(crate) async fn chat(&self, body: &Value) -> Value {
        let answer = self.call(Request::post_json(CHAT, body)).await.json(200).await;
        check("ChatResponse", &answer);
        answer
    }

    /// Asks and expects a stream.
    pub(crate) async fn chat_stream(&self, dialect: Dialect, body: &Value) -> ChatEvents {
        ChatEvents::new(self.call(Request::post_json(CHAT_STREAM, body)).await, dialect).await
    }
}

impl Response {
    /// The body of a response that must be an error of the chat dialects, with the trace id of its header.
    pub(crate) async fn chat_error(self, status: u16, code: &str) -> Value {
        let trace = self.header("x-trace-id").expect("every response has a trace id").to_owned();
        let body = self.json(status).await;
        check("ErrorResponse", &body);
        assert_eq!(body["error_code"], code, "{body}");
        assert_eq!(body["trace_id"], trace, "{body}");
        assert_ne!(body["message"], "", "{body}");
        assert!(
            body.as_object().is_some_and(|fields| fields.values().all(|value| !value.is_null())),
            "{body}"
        );
        body
    }
}

/// A stream of events of one `data` line each.
pub(crate) struct ChatEvents {
    pub(crate) answer: Response,
    dialect: Dialect,
    bytes: Vec<u8>,
}

impl ChatEvents {
    async fn new(answer: Response, dialect: Dialect) -> Self {
        let status = answer.status;
        if status != 200 {
            panic!("{status} {}", String::from_utf8_lossy(&answer.body().await));
        }
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-cache"),
            ("x-accel-buffering", "no"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
        for name in ["x-prompt-id", "x-session-id", "x-trace-id"] {
            assert!(answer.header(name).is_some(), "{name}");
        }
        Self { answer, dialect, bytes: Vec::new() }
    }

    pub(crate) fn prompt(&self) -> String {
        self.answer.header("x-prompt-id").expect("a stream names its prompt").to_owned()
    }

    pub(crate) fn session(&self) -> String {
        self.answer.header("x-session-id").expect("a stream names its session").to_owned()
    }

    /// The next event; `None` at the proper end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|window| window == b"\n\n") {
                let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
                return Some(self.read(str::from_utf8(&block).expect("an event is UTF-8")));
            }
            match self.answer.chunk().await.expect("a stream ends properly") {
                Some(chunk) => self.bytes.extend(chunk),
                None => {
                    assert_eq!(self.bytes, b"", "a stream ends with a complete event");
                    return None;
                }
            }
        }
    }

    /// Parses a block of exactly one line.
    fn read(&self, block: &str) -> Value {
        let data = block.strip_prefix("data: ").and_then(|block| block.strip_suffix("\n\n"));
        let data = data.unwrap_or_else(|| panic!("no data: {block:?}"));
        assert!(!data.contains(['\n', '\r']), "more than one line: {block:?}");
        let event = serde_json::from_str(data).expect("data is JSON");
        check(self.dialect.model(&event), &event);
        event
    }

    /// Reads up to the first event of this type and returns it.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("no {kind} comes"));
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// The remaining events, to the proper end.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// The complete stream, whose last event is its only terminal one.
    pub(crate) async fn all(mut self) -> Vec<Value> {
        let events = self.rest().await;
        let is_terminal =
            |event: &Value| ["done", "error", "cancelled"].map(Value::from).contains(&event["type"]);
        let terminal = events.iter().position(is_terminal);
        assert_eq!(terminal, events.len().checked_sub(1), "one terminal event, the last: {events:?}");
        events
    }
}

/// The types of events in order, without repetitions.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<_> =
        events.iter().map(|event| event["type"].as_str().expect("an event has a type")).collect();
    types.dedup();
    types
}

/// The text of the answer.
pub(crate) fn text(events: &[Value]) -> String {
    let texts = events.iter().filter(|event| event["type"] == "chunk" || event["type"] == "token");
    texts.map(|event| event["content"].as_str().expect("a token is a text")).collect()
}
