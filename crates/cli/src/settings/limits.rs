//! `[limits]`, `[sessions]` and `[streams]`: the bounds on what runs at once, on sizes and on time.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::validator::{Validator, in_seconds};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LimitSettings {
    pub(crate) concurrent_streams: usize,
    pub(crate) readers: usize,
    pub(crate) connections: usize,
    pub(crate) body_bytes: usize,
    pub(crate) ingest_body_bytes: usize,
    pub(crate) model_queue: usize,
    pub(crate) question_chars: usize,
    pub(crate) answer_bytes: usize,
    /// 0 is no limit.
    pub(crate) requests_per_minute: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SessionSettings {
    #[serde(rename = "idle_seconds", serialize_with = "in_seconds")]
    pub(crate) idle: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StreamSettings {
    #[serde(rename = "resume_seconds", serialize_with = "in_seconds")]
    pub(crate) resume: Duration,
}

/// Bounds; what exceeds one is refused when it arrives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimitsTable {
    /// Prompts that run at once; the environment variable `MAX_CONCURRENT_STREAMS` sets it too.
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrent_streams: u64,
    /// Clients that read streams at once.
    #[schemars(range(min = 1, max = 10_000_000))]
    readers: u64,
    /// Connections at once, each of which is an open file; further ones wait to be accepted.
    #[schemars(range(min = 1, max = 10_000_000))]
    connections: u64,
    /// The largest request body, in bytes.
    #[schemars(range(min = 1_024, max = 4_294_967_296_u64))]
    body_bytes: u64,
    /// The largest body of a request that brings documents, in bytes.
    #[schemars(range(min = 1_024, max = 4_294_967_296_u64))]
    ingest_body_bytes: u64,
    /// Prompts that wait for a model in this process.
    #[schemars(range(min = 0, max = 1_000_000))]
    model_queue: u64,
    /// The longest question, in characters.
    #[schemars(range(min = 1, max = 100_000_000))]
    question_chars: u64,
    /// The longest answer, in bytes.
    #[schemars(range(min = 1_024, max = 268_435_456))]
    answer_bytes: u64,
    /// Requests of one client address in a minute; 0 is no limit.
    #[schemars(range(min = 0, max = 1_000_000))]
    requests_per_minute: u64,
}

impl Default for LimitsTable {
    fn default() -> Self {
        Self {
            concurrent_streams: 100,
            readers: 10_000,
            connections: 12_000,
            body_bytes: 1_048_576,
            ingest_body_bytes: 67_108_864,
            model_queue: 8,
            question_chars: 100_000,
            answer_bytes: 1_048_576,
            requests_per_minute: 0,
        }
    }
}

/// Sessions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SessionsTable {
    /// How long a session may be idle before it expires.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    idle_seconds: f64,
}

impl Default for SessionsTable {
    fn default() -> Self {
        Self { idle_seconds: 3600.0 }
    }
}

/// Streams.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StreamsTable {
    /// How long a prompt without a reader goes on, so that its client can reconnect and resume.
    #[schemars(range(min = 0, max = 31_536_000))]
    resume_seconds: f64,
}

impl Default for StreamsTable {
    fn default() -> Self {
        Self { resume_seconds: 15.0 }
    }
}

impl LimitsTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> LimitSettings {
        LimitSettings {
            concurrent_streams: validator.number("limits.concurrent_streams", self.concurrent_streams),
            readers: validator.number("limits.readers", self.readers),
            connections: validator.number("limits.connections", self.connections),
            body_bytes: validator.number("limits.body_bytes", self.body_bytes),
            ingest_body_bytes: validator.number("limits.ingest_body_bytes", self.ingest_body_bytes),
            model_queue: validator.number("limits.model_queue", self.model_queue),
            question_chars: validator.number("limits.question_chars", self.question_chars),
            answer_bytes: validator.number("limits.answer_bytes", self.answer_bytes),
            requests_per_minute: validator.number("limits.requests_per_minute", self.requests_per_minute),
        }
    }
}

impl SessionsTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> SessionSettings {
        SessionSettings { idle: validator.seconds("sessions.idle_seconds", self.idle_seconds) }
    }
}

impl StreamsTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> StreamSettings {
        StreamSettings { resume: validator.seconds("streams.resume_seconds", self.resume_seconds) }
    }
}
