//! Refusals of the generation dialect.

use domain::{Rejection, TraceId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Rejected;
use crate::json::reply;

/// Why a call is refused.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Refusal")]
pub struct ErrorBody<'a> {
    /// What to branch on.
    #[schemars(extend("examples" = ["invalid_request", "prompt_in_flight"]))]
    code: &'a str,
    /// What to tell a person: what is wrong and what to do.
    message: &'a str,
    /// What a program may need to go on, such as the `promptId` of the running prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    details: Option<&'a Value>,
    /// The trace id of the request, which the server's log has, too.
    trace_id: String,
}

/// The body of a refusal.
pub(crate) fn error_body(rejected: &Rejected, trace: TraceId) -> Vec<u8> {
    let Rejected { code, message, details, .. } = rejected;
    reply(&ErrorBody { code, message, details: details.as_ref(), trace_id: trace.to_string() })
}

/// What a rejection is here.
pub(crate) fn rejected(rejection: &Rejection) -> Rejected {
    let rejected = |status, code| Rejected::new(status, code, rejection.to_string());
    match rejection {
        Rejection::Invalid(_) => rejected(400, "invalid_request"),
        Rejection::SessionNotUsable => rejected(400, "session_not_found"),
        Rejection::SessionNotFound => rejected(404, "session_not_found"),
        Rejection::PromptNotFound => rejected(404, "prompt_not_found"),
        Rejection::PromptInFlight(prompt) => Rejected {
            details: Some(json!({ "promptId": prompt.to_string() })),
            ..rejected(409, "prompt_in_flight")
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
