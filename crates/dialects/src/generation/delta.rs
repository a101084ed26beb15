//! The delta: an event as this dialect sends it.

use std::io::Write;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use domain::{Ended, Event, Failure, FailureKind, FinishReason, Model, Outcome, Step, Timestamp};
use serde::Serialize;

use crate::Encoder;

/// How deltas are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One JSON object a line.
    Ndjson,
    /// Server-sent events: the same object as `data`, its `seq` as `id`, its type as `event`.
    Sse,
}

impl Encoding {
    /// What a client's `Accept` header asks for. NDJSON, unless it names server-sent events and does not
    /// like NDJSON at least as much.
    pub fn from_accept(accept: Option<&str>) -> Self {
        let weight_of = |wanted: &str| {
            accept
                .unwrap_or_default()
                .split(',')
                .filter_map(|range| weight(range, wanted))
                .fold(0.0, f32::max)
        };
        let sse = weight_of("text/event-stream");
        if sse > weight_of("application/x-ndjson") { Self::Sse } else { Self::Ndjson }
    }

    /// The `Content-Type` of the stream.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Sse => "text/event-stream",
        }
    }
}

/// The weight (`q`) that a media range of an `Accept` header gives to exactly this type.
fn weight(range: &str, wanted: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(wanted) {
        return None;
    }
    Some(parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse().ok()).unwrap_or(1.0))
}

/// The `seq` of the terminal delta of an ended log.
pub fn terminal_seq<'a>(log: impl IntoIterator<Item = &'a Event>) -> u64 {
    log.into_iter().filter(|event| matches!(event.step, Step::Text(_))).count() as u64
}

/// Encodes a log as deltas: a token for each text, then one `done` or `error`.
pub struct DeltaEncoder {
    encoding: Encoding,
    /// Deltas up to this one were seen before.
    after: Option<u64>,
    seq: u64,
    prompt_id: String,
    idempotency_key: Option<String>,
    model: Option<Model>,
    cached_tokens: Option<u64>,
    accepted_at: Timestamp,
    first_token_at: Option<Timestamp>,
}

impl DeltaEncoder {
    /// An encoder for a client that has the deltas up to `after`.
    pub fn new(encoding: Encoding, after: Option<u64>) -> Self {
        Self {
            encoding,
            after,
            seq: 0,
            prompt_id: String::new(),
            idempotency_key: None,
            model: None,
            cached_tokens: None,
            accepted_at: Timestamp::MIN,
            first_token_at: None,
        }
    }

    fn delta<'a>(
        &'a self,
        kind: &'static str,
        role: &'static str,
        text: Option<&'a str>,
        metadata: Option<Metadata<'a>>,
    ) -> Delta<'a> {
        Delta { prompt_id: &self.prompt_id, kind, seq: self.seq, text, role, metadata }
    }

    fn terminal<'a>(&'a self, ended: &'a Ended, at: Timestamp) -> Delta<'a> {
        let done =
            |reason| self.delta("done", "assistant", None, Some(Metadata::Done(self.done(reason, at))));
        match &ended.outcome {
            Outcome::Done(FinishReason::Length) => done("length"),
            Outcome::Done(FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Filtered) => {
                done("stop")
            }
            Outcome::Cancelled => done("cancelled"),
            Outcome::Failed(failure) => {
                self.delta("error", "system", None, Some(Metadata::Error(self.error(failure))))
            }
        }
    }

    /// Writes a delta, unless the client has it.
    fn write(&self, delta: &Delta<'_>, out: &mut BytesMut) {
        if self.after.is_some_and(|after| delta.seq <= after) {
            return;
        }
        self.frame(delta, &mut out.writer()).expect("a delta is JSON, and memory takes it");
    }

    fn frame(&self, delta: &Delta<'_>, mut out: impl Write) -> std::io::Result<()> {
        match self.encoding {
            Encoding::Ndjson => {
                serde_json::to_writer(&mut out, delta)?;
                out.write_all(b"\n")
            }
            Encoding::Sse => {
                write!(out, "id: {}\nevent: {}\ndata: ", delta.seq, delta.kind)?;
                serde_json::to_writer(&mut out, delta)?;
                out.write_all(b"\n\n")
            }
        }
    }

    fn done(&self, finish_reason: &'static str, ended_at: Timestamp) -> Done<'_> {
        let generation_time =
            self.first_token_at.map(|first| ended_at.since(first).max(Duration::from_millis(1)));
        let tokens_per_second = generation_time.map_or(0.0, |time| self.seq as f64 / time.as_secs_f64());
        Done {
            token_count: self.seq,
            finish_reason,
            provider: self.model.as_ref().map(|model| &*model.provider),
            model: self.model.as_ref().map(|model| &*model.model),
            time_to_first_token_ms: self.first_token_at.map(|first| millis(first.since(self.accepted_at))),
            tokens_per_second: (tokens_per_second * 10.0).round() / 10.0,
            retrieval_ms: 0,
            cached_tokens: self.cached_tokens,
            sources: [],
            idempotency_key: self.idempotency_key.as_deref(),
            cancelled: finish_reason == "cancelled",
        }
    }

    fn error<'a>(&'a self, failure: &'a Failure) -> Error<'a> {
        Error {
            code: code(failure.kind),
            message: &failure.message,
            retryable: failure.kind.retryable(),
            retry_after_ms: failure.retry_after.map(millis),
            idempotency_key: self.idempotency_key.as_deref(),
        }
    }
}

impl Encoder for DeltaEncoder {
    fn encode(&mut self, event: &Event, out: &mut BytesMut) {
        match &event.step {
            Step::Accepted(accepted) => {
                self.prompt_id = accepted.prompt.to_string();
                self.idempotency_key.clone_from(&accepted.key);
                self.model = Some(accepted.first_choice.clone());
                self.accepted_at = event.at;
            }
            Step::Started(model) => self.model = Some(model.clone()),
            Step::Text(text) => {
                self.first_token_at.get_or_insert(event.at);
                self.write(&self.delta("token", "assistant", Some(text), None), out);
                self.seq += 1;
            }
            Step::Usage(usage) => self.cached_tokens = usage.cached,
            Step::Ended(ended) => self.write(&self.terminal(ended, event.at), out),
            Step::Reasoning(_) | Step::ToolCall(_) => {}
        }
    }

    fn keep_alive(&self) -> Option<&'static [u8]> {
        match self.encoding {
            Encoding::Ndjson => None,
            Encoding::Sse => Some(b": keep-alive\n\n"),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Delta<'a> {
    prompt_id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Metadata<'a> {
    Done(Done<'a>),
    Error(Error<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Done<'a> {
    token_count: u64,
    finish_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_first_token_ms: Option<u64>,
    tokens_per_second: f64,
    retrieval_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    /// No passages go into a prompt yet.
    sources: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cancelled: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Error<'a> {
    code: &'static str,
    message: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
}

fn code(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unavailable | FailureKind::Refused => "provider_unavailable",
        FailureKind::SilentAtStart | FailureKind::Stalled => "provider_timeout",
        FailureKind::Died => "provider_error",
        FailureKind::EmptyAnswer => "empty_answer",
        FailureKind::TooLong => "prompt_too_long",
        FailureKind::Interrupted => "interrupted",
        FailureKind::Internal => "internal_error",
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
