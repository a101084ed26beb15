//! OpenAI's API: chat completions as server-sent events or one JSON object, and embeddings.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::api::{AnswerEnd, ChatRequest, Finish, FrameEncoder, ModelApi, TokenKind};

/// OpenAI's API.
pub(crate) struct OpenAi;

impl ModelApi for OpenAi {
    const STREAMS_BY_DEFAULT: bool = false;
    const STREAM_TYPE: &'static str = "text/event-stream; charset=utf-8";

    fn frames(chat: &ChatRequest) -> Box<dyn FrameEncoder> {
        if chat.streams { Box::new(SseEncoder::new(chat)) } else { Box::new(JsonEncoder::new(chat)) }
    }

    fn error(status: u16, message: &str) -> Value {
        let kind = match status {
            401 => "authentication_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
    }

    fn truncates(_: &Value) -> bool {
        false
    }

    fn vectors(model: &str, vectors: Vec<(usize, Value)>, input_tokens: u64) -> Value {
        let vector = |(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector});
        json!({
            "object": "list",
            "data": vectors.into_iter().map(vector).collect::<Vec<_>>(),
            "model": model,
            "usage": {"prompt_tokens": input_tokens, "total_tokens": input_tokens},
        })
    }
}

/// The body of `GET /v1/models`.
pub(crate) fn models(names: impl IntoIterator<Item = String>) -> Value {
    let model = |name| json!({"id": name, "object": "model", "created": now(), "owned_by": "fake"});
    json!({"object": "list", "data": names.into_iter().map(model).collect::<Vec<_>>()})
}

/// A streamed answer.
struct SseEncoder {
    /// The start of a chunk, up to its choices.
    head: String,
    /// The end of a chunk, after its choices.
    tail: &'static str,
    input_tokens: u64,
    wants_usage: bool,
    /// The id of the next frame, if frames carry ids.
    next_id: Option<u64>,
}

impl SseEncoder {
    fn new(chat: &ChatRequest) -> Self {
        Self {
            head: format!("{},\"choices\":[", opening(chat, "chat.completion.chunk")),
            tail: if chat.wants_usage { "],\"usage\":null}\n\n" } else { "]}\n\n" },
            input_tokens: chat.input_tokens,
            wants_usage: chat.wants_usage,
            next_id: chat.numbered.then_some(0),
        }
    }

    /// Writes the start of a frame, up to its JSON.
    fn begin_frame(&mut self, out: &mut Vec<u8>) {
        if let Some(id) = &mut self.next_id {
            out.extend_from_slice(format!("id: {id}\n").as_bytes());
            *id += 1;
        }
        out.extend_from_slice(b"data: ");
    }

    /// Writes a chunk whose delta consists of these parts.
    fn chunk(&mut self, delta: &[&[u8]], finish_reason: &str, out: &mut Vec<u8>) {
        self.begin_frame(out);
        out.extend_from_slice(self.head.as_bytes());
        out.extend_from_slice(b"{\"index\":0,\"delta\":");
        for part in delta {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(b",\"logprobs\":null,\"finish_reason\":");
        out.extend_from_slice(finish_reason.as_bytes());
        out.push(b'}');
        out.extend_from_slice(self.tail.as_bytes());
    }
}

impl FrameEncoder for SseEncoder {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.chunk(&[br#"{"role":"assistant","content":"","refusal":null}"#], "null", out);
    }

    fn token(&mut self, kind: TokenKind, escaped: &[u8], out: &mut Vec<u8>) {
        let start: &[u8] = match kind {
            TokenKind::Text => b"{\"content\":\"",
            TokenKind::Reasoning => b"{\"reasoning_content\":\"",
        };
        self.chunk(&[start, escaped, b"\"}"], "null", out);
    }

    fn half_character(&self) -> &'static [u8] {
        b"\\ud83d"
    }

    fn tool_call(&mut self, name: &str, arguments: &Value, out: &mut Vec<u8>) {
        let start = json!({"tool_calls": [{
            "index": 0, "id": "call_fake", "type": "function", "function": {"name": name, "arguments": ""},
        }]});
        self.chunk(&[start.to_string().as_bytes()], "null", out);
        // The arguments are sent in two pieces, split between characters.
        let arguments = arguments.to_string();
        let middle = arguments.floor_char_boundary(arguments.len() / 2);
        for piece in [&arguments[..middle], &arguments[middle..]] {
            let delta = json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]});
            self.chunk(&[delta.to_string().as_bytes()], "null", out);
        }
    }

    fn error(&mut self, message: &str, out: &mut Vec<u8>) {
        self.begin_frame(out);
        out.extend_from_slice(format!("{}\n\n", OpenAi::error(500, message)).as_bytes());
    }

    fn end(&mut self, end: &AnswerEnd, out: &mut Vec<u8>) {
        self.chunk(&[b"{}"], &format!("\"{}\"", finish_reason(end.finish)), out);
        if self.wants_usage {
            let usage = usage(self.input_tokens, end.output_tokens);
            self.begin_frame(out);
            out.extend_from_slice(format!("{}],\"usage\":{usage}}}\n\n", self.head).as_bytes());
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

/// An answer in one JSON object.
struct JsonEncoder {
    opening: String,
    input_tokens: u64,
    content: Vec<u8>,
    reasoning: Vec<u8>,
    tool_calls: Value,
}

impl JsonEncoder {
    fn new(chat: &ChatRequest) -> Self {
        Self {
            opening: opening(chat, "chat.completion"),
            input_tokens: chat.input_tokens,
            content: Vec::new(),
            reasoning: Vec::new(),
            tool_calls: Value::Null,
        }
    }
}

impl FrameEncoder for JsonEncoder {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn token(&mut self, kind: TokenKind, escaped: &[u8], _: &mut Vec<u8>) {
        match kind {
            TokenKind::Text => self.content.extend_from_slice(escaped),
            TokenKind::Reasoning => self.reasoning.extend_from_slice(escaped),
        }
    }

    fn half_character(&self) -> &'static [u8] {
        b"\\ud83d"
    }

    fn tool_call(&mut self, name: &str, arguments: &Value, _: &mut Vec<u8>) {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        self.tool_calls = json!([{"id": "call_fake", "type": "function", "function": function}]);
    }

    fn error(&mut self, message: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(OpenAi::error(500, message).to_string().as_bytes());
    }

    fn end(&mut self, end: &AnswerEnd, out: &mut Vec<u8>) {
        out.extend_from_slice(self.opening.as_bytes());
        out.extend_from_slice(br#","choices":[{"index":0,"message":{"role":"assistant","content":"#);
        if self.tool_calls.is_null() {
            quote(&self.content, out);
        } else {
            out.extend_from_slice(format!("null,\"tool_calls\":{}", self.tool_calls).as_bytes());
        }
        if !self.reasoning.is_empty() {
            out.extend_from_slice(b",\"reasoning_content\":");
            quote(&self.reasoning, out);
        }
        let usage = usage(self.input_tokens, end.output_tokens);
        let reason = finish_reason(end.finish);
        let rest =
            format!(r#","refusal":null}},"logprobs":null,"finish_reason":"{reason}"}}],"usage":{usage}}}"#);
        out.extend_from_slice(rest.as_bytes());
    }
}

/// The fields at the start of every chunk and completion.
fn opening(chat: &ChatRequest, object: &str) -> String {
    let (number, created, model) = (chat.number, now(), Value::from(chat.model.as_str()));
    format!(
        r#"{{"id":"chatcmpl-fake{number}","object":"{object}","created":{created},"model":{model},"system_fingerprint":"fp_fake""#
    )
}

fn usage(input: u64, output: u64) -> Value {
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": 0},
    })
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCall => "tool_calls",
    }
}

fn quote(escaped: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(escaped);
    out.push(b'"');
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
