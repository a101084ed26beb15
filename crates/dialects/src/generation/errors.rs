//! What a client of the generation dialect sees when a request is rejected or a prompt fails.

use std::time::Duration;

use domain::{Failure, FailureKind, Rejection, TraceId};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::ErrorReply;
use crate::errors::code_schema;
use crate::json::reply;

/// The status and code of a rejected request.
pub(crate) fn rejected(rejection: &Rejection) -> ErrorReply {
    let (status, code) = match rejection {
        Rejection::Invalid(_) => (400, "invalid_request"),
        Rejection::SessionNotUsable => (400, "session_not_found"),
        Rejection::SessionNotFound => (404, "session_not_found"),
        Rejection::PromptNotFound => (404, "prompt_not_found"),
        Rejection::PromptInFlight(_) => (409, "prompt_in_flight"),
        Rejection::KeyReused => (422, "idempotency_key_reused"),
        Rejection::Overloaded { .. } => (503, "overloaded"),
        Rejection::Stopping => (503, "interrupted"),
        Rejection::StorageUnavailable(_) => (503, "storage_unavailable"),
        Rejection::Internal(_) => (500, "internal_error"),
    };
    let details = match rejection {
        Rejection::PromptInFlight(prompt) => Some(json!({ "promptId": prompt.to_string() })),
        _ => None,
    };
    ErrorReply { details, ..ErrorReply::rejected(rejection, status, code) }
}

/// The code of a failure in `error` deltas, log events and metrics.
pub fn failure_code(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unavailable | FailureKind::Refused => "provider_unavailable",
        FailureKind::SilentAtStart | FailureKind::Stalled => "provider_timeout",
        FailureKind::Died => "provider_error",
        FailureKind::EmptyAnswer => "empty_answer",
        FailureKind::TooLong => "prompt_too_long",
        FailureKind::Retrieval | FailureKind::Embedding => "retrieval_unavailable",
        FailureKind::Overloaded => "overloaded",
        FailureKind::Interrupted => "interrupted",
        FailureKind::Internal => "internal_error",
    }
}

/// Every code of [`failure_code`], as JSON Schema.
pub(crate) fn failure_codes(_: &mut SchemaGenerator) -> Schema {
    code_schema(failure_code)
}

/// Error reply.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Refusal")]
pub struct ErrorBody<'a> {
    /// Error code to branch on.
    #[schemars(extend("examples" = ["invalid_request", "prompt_in_flight"]))]
    code: &'a str,
    /// What is wrong and what to do.
    message: &'a str,
    /// Further fields for programs, such as the `promptId` of the running prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    details: Option<&'a Value>,
    /// Trace id of the request, which is also in the server's log.
    trace_id: String,
}

/// The body of an error reply.
pub(crate) fn body(error: &ErrorReply, trace: TraceId) -> Vec<u8> {
    let ErrorReply { code, message, details, .. } = error;
    reply(&ErrorBody { code, message, details: details.as_ref(), trace_id: trace.to_string() })
}

/// Metadata of an `error` delta: why the prompt failed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "GenerationError")]
pub(super) struct FailureWire<'a> {
    /// Error code to branch on.
    #[schemars(schema_with = "failure_codes")]
    code: &'static str,
    /// What went wrong and what to do.
    message: &'a str,
    /// Whether asking again may help.
    retryable: bool,
    /// Milliseconds to wait before asking again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Idempotency key of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
}

impl<'a> FailureWire<'a> {
    pub(super) fn new(failure: &'a Failure, idempotency_key: Option<&'a str>) -> Self {
        Self {
            code: failure_code(failure.kind),
            message: &failure.message,
            retryable: failure.kind.retryable(),
            retry_after_ms: failure.retry_after.map(millis),
            idempotency_key,
        }
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
