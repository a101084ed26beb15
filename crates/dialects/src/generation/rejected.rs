//! Refusals of the generation dialect. Calls that belong to no dialect use its shape too.

use std::time::Duration;

use domain::{Rejection, TraceId};
use serde::Serialize;
use serde_json::{Value, json};

/// A message repeats what a client sent only up to here.
const MESSAGE_CHARS: usize = 1_000;

/// A refusal: a status, and what its body says.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The HTTP status.
    pub status: u16,
    /// What to branch on.
    pub code: &'static str,
    /// What to tell a person.
    pub message: String,
    /// What a program may need to go on.
    pub details: Option<Value>,
    /// When asking again may help.
    pub retry_after: Option<Duration>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Value>,
    trace_id: String,
}

impl Rejected {
    /// A refusal with nothing more to say.
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: None, retry_after: None }
    }

    /// The body, as JSON.
    pub fn body(&self, trace: TraceId) -> Vec<u8> {
        let body = ErrorBody {
            code: self.code,
            message: &self.message,
            details: self.details.as_ref(),
            trace_id: trace.to_string(),
        };
        serde_json::to_vec(&body).expect("an error body is JSON")
    }
}

impl From<Rejection> for Rejected {
    fn from(rejection: Rejection) -> Self {
        let message: String = rejection.to_string().chars().take(MESSAGE_CHARS).collect();
        let rejected = |status, code| Self::new(status, code, message);
        match rejection {
            Rejection::Invalid(_) => rejected(400, "invalid_request"),
            Rejection::SessionNotUsable => rejected(400, "session_not_found"),
            Rejection::SessionNotFound => rejected(404, "session_not_found"),
            Rejection::PromptNotFound => rejected(404, "prompt_not_found"),
            Rejection::PromptInFlight(prompt) => Self {
                details: Some(json!({ "promptId": prompt.to_string() })),
                ..rejected(409, "prompt_in_flight")
            },
            Rejection::KeyReused => rejected(422, "idempotency_key_reused"),
            Rejection::Overloaded { retry_after, .. } => {
                Self { retry_after: Some(retry_after), ..rejected(503, "overloaded") }
            }
            Rejection::Stopping => rejected(503, "interrupted"),
            Rejection::StorageUnavailable(_) => rejected(503, "storage_unavailable"),
            Rejection::Internal(_) => rejected(500, "internal_error"),
        }
    }
}
