//! Ollama's API: chat as newline-delimited JSON or one JSON object, and embeddings.

use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use domain::Timestamp;
use serde_json::{Value, json};

use super::api::{AnswerEnd, ChatRequest, Finish, FrameEncoder, ModelApi, TokenKind};

/// Ollama's API.
pub(crate) struct Ollama;

impl ModelApi for Ollama {
    const STREAMS_BY_DEFAULT: bool = true;
    const STREAM_TYPE: &'static str = "application/x-ndjson";

    fn frames(chat: &ChatRequest) -> Box<dyn FrameEncoder> {
        Box::new(NdjsonEncoder::new(chat))
    }

    fn error(_: u16, message: &str) -> Value {
        json!({"error": message})
    }

    fn truncates(body: &Value) -> bool {
        body["truncate"] != false
    }

    fn vectors(model: &str, vectors: Vec<(usize, Value)>, input_tokens: u64) -> Value {
        json!({
            "model": model,
            "embeddings": vectors.into_iter().map(|(_, vector)| vector).collect::<Vec<_>>(),
            "total_duration": 3_000_000,
            "load_duration": 1_000_000,
            "prompt_eval_count": input_tokens,
        })
    }
}

/// The body of `GET /api/tags`.
pub(crate) fn tags(names: impl IntoIterator<Item = String>) -> Value {
    let mut timestamps = Timetimestamps::default();
    let model = |name| {
        let mut modified_at = Vec::new();
        timestamps.write(&mut modified_at);
        json!({
            "name": name,
            "model": name,
            "modified_at": String::from_utf8_lossy(&modified_at),
            "size": 2_019_393_189_u64,
            "digest": "fa".repeat(32),
            "details": {
                "parent_model": "", "format": "gguf", "family": "fake", "families": ["fake"],
                "parameter_size": "0B", "quantization_level": "Q4_K_M",
            },
        })
    };
    json!({"models": names.into_iter().map(model).collect::<Vec<_>>()})
}

/// An answer with one line per token, or with everything in one line.
struct NdjsonEncoder {
    /// The start of a line, up to its timestamp.
    head: String,
    timestamps: Timetimestamps,
    streams: bool,
    input_tokens: u64,
    started: Instant,
    /// The text of an answer that is not streamed.
    content: Vec<u8>,
    thinking: Vec<u8>,
    tool_calls: Value,
}

impl NdjsonEncoder {
    fn new(chat: &ChatRequest) -> Self {
        Self {
            head: format!(r#"{{"model":{},"created_at":""#, Value::from(chat.model.as_str())),
            timestamps: Timetimestamps::default(),
            streams: chat.streams,
            input_tokens: chat.input_tokens,
            started: Instant::now(),
            content: Vec::new(),
            thinking: Vec::new(),
            tool_calls: Value::Null,
        }
    }

    /// Writes a line up to its `done` field.
    fn message(&mut self, content: &[u8], thinking: &[u8], tool_calls: &Value, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        self.timestamps.write(out);
        out.extend_from_slice(br#"","message":{"role":"assistant","content":""#);
        out.extend_from_slice(content);
        out.push(b'"');
        if !thinking.is_empty() {
            out.extend_from_slice(b",\"thinking\":\"");
            out.extend_from_slice(thinking);
            out.push(b'"');
        }
        if !tool_calls.is_null() {
            out.extend_from_slice(format!(",\"tool_calls\":{tool_calls}").as_bytes());
        }
        out.push(b'}');
    }
}

impl FrameEncoder for NdjsonEncoder {
    fn begin(&mut self, _: &mut Vec<u8>) {}

    fn token(&mut self, kind: TokenKind, escaped: &[u8], out: &mut Vec<u8>) {
        match kind {
            TokenKind::Text if !self.streams => return self.content.extend_from_slice(escaped),
            TokenKind::Reasoning if !self.streams => return self.thinking.extend_from_slice(escaped),
            TokenKind::Text => self.message(escaped, b"", &Value::Null, out),
            TokenKind::Reasoning => self.message(b"", escaped, &Value::Null, out),
        }
        out.extend_from_slice(b",\"done\":false}\n");
    }

    fn half_character(&self) -> &'static [u8] {
        b"\xf0\x9f"
    }

    fn tool_call(&mut self, name: &str, arguments: &Value, out: &mut Vec<u8>) {
        let calls = json!([{"function": {"name": name, "arguments": arguments}}]);
        if !self.streams {
            self.tool_calls = calls;
            return;
        }
        self.message(b"", b"", &calls, out);
        out.extend_from_slice(b",\"done\":false}\n");
    }

    fn error(&mut self, message: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{}\n", Ollama::error(500, message)).as_bytes());
    }

    fn end(&mut self, end: &AnswerEnd, out: &mut Vec<u8>) {
        let (content, thinking) = (std::mem::take(&mut self.content), std::mem::take(&mut self.thinking));
        let tool_calls = self.tool_calls.take();
        self.message(&content, &thinking, &tool_calls, out);
        let reason = if end.finish == Finish::Length { "length" } else { "stop" };
        let (input, output) = (self.input_tokens, end.output_tokens);
        let (load, prompt_eval, eval) = (1_000_000, 2_000_000, self.started.elapsed().as_nanos() + 1);
        let total = load + prompt_eval + eval;
        let rest = format!(
            ",\"done_reason\":\"{reason}\",\"done\":true,\"total_duration\":{total},\"load_duration\":{load},\
             \"prompt_eval_count\":{input},\"prompt_eval_duration\":{prompt_eval},\
             \"eval_count\":{output},\"eval_duration\":{eval}}}\n"
        );
        out.extend_from_slice(rest.as_bytes());
    }
}

/// Writes strictly increasing timestamps in RFC 3339 with nanoseconds. The text of the current second is
/// cached.
#[derive(Default)]
struct Timetimestamps {
    last_nanos: u64,
    second: u64,
    second_text: String,
}

impl Timetimestamps {
    fn write(&mut self, out: &mut Vec<u8>) {
        const NANOS: u64 = 1_000_000_000;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        self.last_nanos = now.max(self.last_nanos + 1);
        let second = self.last_nanos / NANOS;
        if second != self.second {
            let micros = i64::try_from(second * 1_000_000).unwrap_or(i64::MAX);
            let text = Timestamp::from_micros(micros).to_string();
            self.second_text = text.trim_end_matches(".000Z").to_owned();
            self.second = second;
        }
        write!(out, "{}.{:09}Z", self.second_text, self.last_nanos % NANOS).expect("a vector takes all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timetimestamps_increase_and_have_nanoseconds() {
        let mut timestamps = Timetimestamps::default();
        let mut next = || {
            let mut out = Vec::new();
            timestamps.write(&mut out);
            String::from_utf8(out).unwrap()
        };
        let (first, second) = (next(), next());
        assert!(first < second, "{first} {second}");
        assert_eq!(first.len(), "2026-01-01T00:00:00.123456789Z".len(), "{first}");
    }
}
