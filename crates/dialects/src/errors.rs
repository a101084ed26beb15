//! Error replies, in the form that all dialects share.
//!
//! What a client sees when a request is rejected or an answer fails is decided in one file per dialect:
//! `generation/errors.rs`, `chat/errors.rs`, `staged/errors.rs` and `knowledge/errors.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{FailureKind, Rejection, TraceId};
use schemars::Schema;
use serde_json::Value;

use crate::{chat, generation};

/// Upper bound in characters on an error message, which may repeat parts of the request.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// An error reply: a status and the fields of its body.
#[derive(Clone, Debug)]
pub struct ErrorReply {
    /// The HTTP status.
    pub status: u16,
    /// The error code that clients branch on.
    pub code: &'static str,
    /// The message for people: what is wrong and what to do.
    pub message: String,
    /// Further fields for programs, such as the id of a running prompt.
    pub details: Option<Value>,
    /// Sent as `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl ErrorReply {
    /// A reply without details. A long message is cut.
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
            message.truncate(end);
        }
        Self { status, code, message, details: None, retry_after: None }
    }

    /// The reply to a rejected request.
    pub(crate) fn rejected(rejection: &Rejection, status: u16, code: &'static str) -> Self {
        let retry_after = match rejection {
            Rejection::Overloaded { retry_after, .. } => Some(*retry_after),
            _ => None,
        };
        Self { retry_after, ..Self::new(status, code, rejection.to_string()) }
    }
}

/// The format of error bodies. Calls outside every dialect use that of the generation dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `{code, message, details?, traceId}`
    Generation,
    /// `{error_code, message, details?, trace_id}`: of the chat and the staged dialect.
    Chat,
}

impl ErrorFormat {
    /// The reply to a rejected request.
    pub fn rejected(self, rejection: &Rejection) -> ErrorReply {
        match self {
            Self::Generation => generation::errors::rejected(rejection),
            Self::Chat => chat::errors::rejected(rejection),
        }
    }

    /// The reply's body, as JSON.
    pub fn body(self, reply: &ErrorReply, trace: TraceId) -> Vec<u8> {
        match self {
            Self::Generation => generation::errors::body(reply, trace),
            Self::Chat => chat::errors::body(reply, trace),
        }
    }
}

/// Describes a kind of failure, for the API documentation.
pub fn failure_meaning(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unavailable => "no provider could be reached",
        FailureKind::Refused => "the provider refused the request",
        FailureKind::SilentAtStart => "the provider sent no token in time",
        FailureKind::Stalled => "the provider stalled during its answer",
        FailureKind::Died => "the provider's answer broke off",
        FailureKind::EmptyAnswer => "the model's answer was empty",
        FailureKind::TooLong => "the question is larger than the model's context window",
        FailureKind::Retrieval => "passages could not be retrieved",
        FailureKind::Embedding => "the question could not be embedded",
        FailureKind::Overloaded => "the model's queue is full",
        FailureKind::Interrupted => "the server stopped, or cannot write its journal",
        FailureKind::Internal => "internal error",
    }
}

/// The codes of all kinds of failures in a dialect, as JSON Schema.
pub(crate) fn code_schema(code: fn(FailureKind) -> &'static str) -> Schema {
    let codes: BTreeSet<_> = FailureKind::ALL.into_iter().map(code).collect();
    schemars::json_schema!({"type": "string", "enum": codes})
}
