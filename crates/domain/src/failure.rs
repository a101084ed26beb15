//! Why a prompt failed: one kind per row of the table that all dialects share.

use std::fmt;
use std::time::Duration;

/// Why a prompt ended without a complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind to branch on.
    pub kind: FailureKind,
    /// A message for the user: what is wrong and what to do.
    pub message: String,
    /// The delay that the provider asked for before the next call.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure without a `retry_after`.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The provider cannot be reached, or answers 5xx or 429.
    Unavailable,
    /// The provider refused the request: 400, 401, 403 or 404.
    Refused,
    /// The first-token timeout elapsed.
    SilentAtStart,
    /// The stall timeout elapsed between two tokens.
    Stalled,
    /// The provider's stream broke off or reported an error after it began.
    Died,
    /// The provider ended without text and without a tool call.
    EmptyAnswer,
    /// The prompt is larger than the model's context window.
    TooLong,
    /// Retrieval failed.
    Retrieval,
    /// The question could not be embedded, so that retrieval was not possible.
    Embedding,
    /// The model's queue is full.
    Overloaded,
    /// The server stopped, or lost its journal.
    Interrupted,
    /// A bug in the server.
    Internal,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Unavailable,
        Self::Refused,
        Self::SilentAtStart,
        Self::Stalled,
        Self::Died,
        Self::EmptyAnswer,
        Self::TooLong,
        Self::Retrieval,
        Self::Embedding,
        Self::Overloaded,
        Self::Interrupted,
        Self::Internal,
    ];

    /// Whether the same question may succeed later.
    pub fn retryable(self) -> bool {
        !matches!(self, Self::Refused | Self::TooLong | Self::Internal)
    }

    /// Whether another provider may be called, provided that nothing was streamed yet.
    pub fn allows_fallback(self) -> bool {
        match self {
            Self::Unavailable
            | Self::Refused
            | Self::SilentAtStart
            | Self::EmptyAnswer
            | Self::TooLong
            | Self::Overloaded => true,
            Self::Stalled
            | Self::Died
            | Self::Retrieval
            | Self::Embedding
            | Self::Interrupted
            | Self::Internal => false,
        }
    }

    /// Whether the circuit breaker of the provider counts it: the failures that indicate an unhealthy
    /// provider.
    pub fn counts_for_breaker(self) -> bool {
        matches!(self, Self::Unavailable | Self::SilentAtStart | Self::Stalled | Self::Died)
    }
}
