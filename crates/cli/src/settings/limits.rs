//! The bounds: how much at once, how large, how long.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checks::{ANY_TIME, Checks, SOME_TIME, in_seconds};

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LimitSettings {
    /// Prompts that run at once.
    pub(crate) concurrent_streams: usize,
    /// Clients that read at once.
    pub(crate) readers: usize,
    /// Connections at once.
    pub(crate) connections: usize,
    /// Bytes of a request's body.
    pub(crate) body_bytes: usize,
    /// Bytes of a body that brings documents.
    pub(crate) ingest_body_bytes: usize,
    /// Prompts that wait for an in-process model.
    pub(crate) model_queue: usize,
    /// Characters of a question.
    pub(crate) question_chars: usize,
    /// Bytes of an answer.
    pub(crate) answer_bytes: usize,
    /// Requests of one client address in a minute; 0 is no limit.
    pub(crate) requests_per_minute: u32,
}

/// `[sessions]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SessionSettings {
    /// How long a session may be idle before it is over.
    #[serde(rename = "idle_seconds", serialize_with = "in_seconds")]
    pub(crate) idle: Duration,
}

/// `[streams]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StreamSettings {
    /// How long a prompt goes on without a reader, so that its client can come back.
    #[serde(rename = "resume_seconds", serialize_with = "in_seconds")]
    pub(crate) resume: Duration,
}

/// `[limits]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedLimits {
    concurrent_streams: u64,
    readers: u64,
    connections: u64,
    body_bytes: u64,
    ingest_body_bytes: u64,
    model_queue: u64,
    question_chars: u64,
    answer_bytes: u64,
    requests_per_minute: u64,
}

impl Default for TypedLimits {
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

/// `[sessions]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedSessions {
    idle_seconds: f64,
}

impl Default for TypedSessions {
    fn default() -> Self {
        Self { idle_seconds: 3600.0 }
    }
}

/// `[streams]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedStreams {
    resume_seconds: f64,
}

impl Default for TypedStreams {
    fn default() -> Self {
        Self { resume_seconds: 15.0 }
    }
}

/// What a body may have.
const BYTES: RangeInclusive<u64> = 1_024..=1 << 32;

/// What an answer may have: its log is one record of the history in the end.
const ANSWER_BYTES: RangeInclusive<u64> = 1_024..=1 << 28;

impl TypedLimits {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> LimitSettings {
        let mut number = |key, value, allowed| checks.number(&format!("limits.{key}"), value, allowed);
        LimitSettings {
            concurrent_streams: number("concurrent_streams", self.concurrent_streams, 1..=1_000_000),
            readers: number("readers", self.readers, 1..=10_000_000),
            connections: number("connections", self.connections, 1..=10_000_000),
            body_bytes: number("body_bytes", self.body_bytes, BYTES),
            ingest_body_bytes: number("ingest_body_bytes", self.ingest_body_bytes, BYTES),
            model_queue: number("model_queue", self.model_queue, 0..=1_000_000),
            question_chars: number("question_chars", self.question_chars, 1..=100_000_000),
            answer_bytes: number("answer_bytes", self.answer_bytes, ANSWER_BYTES),
            requests_per_minute: checks.number(
                "limits.requests_per_minute",
                self.requests_per_minute,
                0..=1_000_000,
            ),
        }
    }
}

impl TypedSessions {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> SessionSettings {
        SessionSettings { idle: checks.seconds("sessions.idle_seconds", self.idle_seconds, SOME_TIME) }
    }
}

impl TypedStreams {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> StreamSettings {
        StreamSettings { resume: checks.seconds("streams.resume_seconds", self.resume_seconds, ANY_TIME) }
    }
}
