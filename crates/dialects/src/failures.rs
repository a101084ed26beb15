//! The one table of failures: what each kind is called in every dialect.

use std::collections::BTreeSet;

use domain::FailureKind;
use schemars::{Schema, SchemaGenerator};

/// The code that stands for a kind of failure in deltas, and in metrics.
pub fn failure_code(kind: FailureKind) -> &'static str {
    told(kind).delta
}

/// Every code that a failure has in deltas, as JSON Schema.
pub(crate) fn delta_codes(_: &mut SchemaGenerator) -> Schema {
    codes(|told| told.delta)
}

/// The same in the staged dialect.
pub(crate) fn staged_codes(_: &mut SchemaGenerator) -> Schema {
    codes(|told| told.staged)
}

fn codes(of: fn(Told) -> &'static str) -> Schema {
    let codes: BTreeSet<_> = FailureKind::ALL.into_iter().map(told).map(of).collect();
    schemars::json_schema!({"type": "string", "enum": codes})
}

/// What a kind of failure is, where it is described.
pub fn failure_meaning(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unavailable => "no provider could be reached",
        FailureKind::Refused => "the provider refused to answer",
        FailureKind::SilentAtStart => "the provider sent nothing for too long",
        FailureKind::Stalled => "the provider fell silent",
        FailureKind::Died => "the provider broke off",
        FailureKind::EmptyAnswer => "the model said nothing",
        FailureKind::TooLong => "the question is larger than the model's window",
        FailureKind::Retrieval => "passages could not be looked for",
        FailureKind::Embedding => "the question could not be embedded",
        FailureKind::Overloaded => "the model has no room",
        FailureKind::Interrupted => "the server stopped, or cannot keep what it does",
        FailureKind::Internal => "something is broken on our side",
    }
}

/// What a kind of failure is called.
pub(crate) struct Told {
    /// The code in deltas.
    pub(crate) delta: &'static str,
    /// The status of a chat that was not streamed.
    pub(crate) status: u16,
    /// The `error_code` of the chat dialect.
    pub(crate) chat: &'static str,
    /// The code of the staged dialect.
    pub(crate) staged: &'static str,
}

/// The row of a kind.
pub(crate) fn told(kind: FailureKind) -> Told {
    let (delta, status, chat, staged) = match kind {
        FailureKind::Unavailable | FailureKind::Refused => {
            ("provider_unavailable", 503, "agent_unavailable", "PROVIDER_UNAVAILABLE")
        }
        FailureKind::SilentAtStart | FailureKind::Stalled => {
            ("provider_timeout", 504, "agent_timeout", "PROVIDER_TIMEOUT")
        }
        FailureKind::Died => ("provider_error", 502, "agent_unavailable", "PROVIDER_ERROR"),
        FailureKind::EmptyAnswer => ("empty_answer", 502, "empty_answer", "EMPTY_ANSWER"),
        FailureKind::TooLong => ("prompt_too_long", 422, "prompt_too_long", "PROMPT_TOO_LONG"),
        FailureKind::Retrieval => ("retrieval_unavailable", 503, "retrieval_unavailable", "RETRIEVAL_ERROR"),
        FailureKind::Embedding => ("retrieval_unavailable", 503, "embedding_failed", "RETRIEVAL_ERROR"),
        FailureKind::Overloaded => ("overloaded", 503, "overloaded", "OVERLOADED"),
        FailureKind::Interrupted => ("interrupted", 503, "interrupted", "INTERRUPTED"),
        FailureKind::Internal => ("internal_error", 500, "internal_error", "INTERNAL_ERROR"),
    };
    Told { delta, status, chat, staged }
}
