//! Refusals of the chat dialect, and of the staged one, and what becomes of a failure in a call that was not streamed.

use domain::{Failure, FailureKind, Rejection, TraceId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failures::{failure_meaning, told};
use crate::json::reply;
use crate::{Rejected, fields};

/// What is said of an answer that was cut short.
pub(super) const CANCELLED: (&str, &str) =
    ("cancelled", "the prompt was cancelled before its answer was whole");

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

/// The body of a refusal.
pub(crate) fn error_body(rejected: &Rejected, trace: TraceId) -> Vec<u8> {
    let Rejected { code, message, details, .. } = rejected;
    reply(&ErrorBody { error_code: code, message, details: details.as_ref(), trace_id: trace.to_string() })
}

/// What a rejection is here.
pub(crate) fn rejected(rejection: &Rejection) -> Rejected {
    let rejected = |status, code| Rejected::new(status, code, rejection.to_string());
    match rejection {
        Rejection::Invalid(_) => rejected(422, "validation_error"),
        Rejection::SessionNotUsable => rejected(404, "session_not_found"),
        Rejection::SessionNotFound | Rejection::PromptNotFound => rejected(404, "not_found"),
        Rejection::PromptInFlight(prompt) => Rejected {
            details: Some(json!({ "prompt_id": prompt.to_string() })),
            ..rejected(409, "concurrent_stream")
        },
        Rejection::KeyReused => rejected(422, "idempotency_key_reused"),
        Rejection::Overloaded { retry_after, .. } => {
            Rejected { retry_after: Some(*retry_after), ..rejected(503, "overloaded") }
        }
        Rejection::Stopping => rejected(503, "interrupted"),
        Rejection::StorageUnavailable(_) => rejected(503, "storage_unavailable"),
        Rejection::Internal(_) => rejected(500, "internal_error"),
    }
}

/// An answer that failed, where nothing of it was told yet.
pub(super) fn failed(failure: &Failure) -> Rejected {
    let told = told(failure.kind);
    Rejected {
        retry_after: failure.retry_after,
        ..Rejected::new(told.status, told.chat, failure.message.clone())
    }
}

/// What may be answered instead of an answer that was asked for whole.
pub fn failures() -> Vec<Rejected> {
    let failures = FailureKind::ALL.map(|kind| failed(&Failure::new(kind, failure_meaning(kind))));
    failures.into_iter().chain([cancelled()]).collect()
}

/// An answer that was cut short, where nothing of it was told yet.
pub(super) fn cancelled() -> Rejected {
    let (code, message) = CANCELLED;
    Rejected::new(409, code, message)
}

/// The session that a path names.
pub fn session_in_path(text: Option<&str>) -> Result<domain::SessionId, Rejected> {
    text.and_then(fields::session).ok_or_else(|| {
        let message = "the session id in the path must be a UUID in lower case with hyphens";
        Rejected::new(400, "invalid_session_id", message)
    })
}
