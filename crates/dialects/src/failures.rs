//! The one table of failures: what each kind is called in every dialect.

use domain::FailureKind;

/// The code that stands for a kind of failure in deltas, and in metrics.
pub fn failure_code(kind: FailureKind) -> &'static str {
    told(kind).delta
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
