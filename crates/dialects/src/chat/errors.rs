//! What a client of the chat dialect sees when a request is rejected or an answer fails. The staged dialect shares the
//! replies to rejected requests.

use domain::{Failure, FailureKind, Rejection, SessionId, TraceId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::errors::failure_meaning;
use crate::json::reply;
use crate::{ErrorReply, fields};

/// The status and code of a rejected request.
pub(crate) fn rejected(rejection: &Rejection) -> ErrorReply {
    let (status, code) = match rejection {
        Rejection::Invalid(_) => (422, "validation_error"),
        Rejection::SessionNotUsable => (404, "session_not_found"),
        Rejection::SessionNotFound | Rejection::PromptNotFound => (404, "not_found"),
        Rejection::PromptInFlight(_) => (409, "concurrent_stream"),
        Rejection::KeyReused => (422, "idempotency_key_reused"),
        Rejection::Overloaded { .. } => (503, "overloaded"),
        Rejection::Stopping => (503, "interrupted"),
        Rejection::StorageUnavailable(_) => (503, "storage_unavailable"),
        Rejection::Internal(_) => (500, "internal_error"),
    };
    let details = match rejection {
        Rejection::PromptInFlight(prompt) => Some(json!({ "prompt_id": prompt.to_string() })),
        _ => None,
    };
    ErrorReply { details, ..ErrorReply::rejected(rejection, status, code) }
}

/// The status of a failure in `POST /chat`, and its code there and in the stream.
pub(super) fn failure_code(kind: FailureKind) -> (u16, &'static str) {
    match kind {
        FailureKind::Unavailable | FailureKind::Refused => (503, "agent_unavailable"),
        FailureKind::SilentAtStart | FailureKind::Stalled => (504, "agent_timeout"),
        FailureKind::Died => (502, "agent_unavailable"),
        FailureKind::EmptyAnswer => (502, "empty_answer"),
        FailureKind::TooLong => (422, "prompt_too_long"),
        FailureKind::Retrieval => (503, "retrieval_unavailable"),
        FailureKind::Embedding => (503, "embedding_failed"),
        FailureKind::Overloaded => (503, "overloaded"),
        FailureKind::Interrupted => (503, "interrupted"),
        FailureKind::Internal => (500, "internal_error"),
    }
}

/// The code and message of a cancelled answer.
pub(super) const CANCELLED: (&str, &str) =
    ("cancelled", "the prompt was cancelled before its answer was complete");

/// The reply of `POST /chat` when the answer was cancelled.
pub(super) fn cancelled() -> ErrorReply {
    let (code, message) = CANCELLED;
    ErrorReply::new(409, code, message)
}

/// The reply of `POST /chat` when the answer failed.
pub(super) fn failed(failure: &Failure) -> ErrorReply {
    let (status, code) = failure_code(failure.kind);
    ErrorReply { retry_after: failure.retry_after, ..ErrorReply::new(status, code, failure.message.clone()) }
}

/// Every error reply that `POST /chat` may send after the request was admitted, for its description.
pub fn late_errors() -> Vec<ErrorReply> {
    let failures = FailureKind::ALL.map(|kind| failed(&Failure::new(kind, failure_meaning(kind))));
    failures.into_iter().chain([cancelled()]).collect()
}

/// Parses the session id in a path, or fails with 400.
pub fn session_in_path(text: Option<&str>) -> Result<SessionId, ErrorReply> {
    text.and_then(fields::session).ok_or_else(|| {
        let message = "the session id in the path must be a UUID in lower case with hyphens";
        ErrorReply::new(400, "invalid_session_id", message)
    })
}

/// Standard error response format.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ErrorResponse")]
pub struct ErrorBody<'a> {
    /// Machine-readable error code
    #[schemars(extend("examples" = ["validation_error", "retrieval_unavailable"]))]
    error_code: &'a str,
    /// Human-readable error message
    message: &'a str,
    /// Additional error context
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    details: Option<&'a Value>,
    /// Request trace ID for debugging
    trace_id: String,
}

/// The body of an error reply.
pub(crate) fn body(error: &ErrorReply, trace: TraceId) -> Vec<u8> {
    let ErrorReply { code, message, details, .. } = error;
    reply(&ErrorBody { error_code: code, message, details: details.as_ref(), trace_id: trace.to_string() })
}
