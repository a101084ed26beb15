//! Why a prompt failed. One kind per row of the table that all dialects share.

use std::fmt;
use std::time::Duration;

/// Why a prompt ended without a whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What to branch on.
    pub kind: FailureKind,
    /// What to tell a person: what went wrong and what to do.
    pub message: String,
    /// How long the provider asked us to wait.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of this kind.
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

/// The rows of the failure table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No connection, 5xx, 429.
    Unavailable,
    /// The provider refused the request: 400, 401, 403, 404.
    Refused,
    /// Silent before the first token.
    SilentAtStart,
    /// Silent after the first token.
    Stalled,
    /// The provider's stream broke off, or told of an error midway.
    Died,
    /// It ended without text or tool call.
    EmptyAnswer,
    /// The question is larger than the model's window.
    TooLong,
    /// RetrievedPassages could not be found.
    Retrieval,
    /// The question could not be embedded, so that nothing could be found for it.
    Embedding,
    /// No room in the model's queue.
    Overloaded,
    /// The server stopped, or lost its journal.
    Interrupted,
    /// A bug of ours.
    Internal,
}

impl FailureKind {
    /// All of them.
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

    /// Whether asking again may help.
    pub fn retryable(self) -> bool {
        !matches!(self, Self::Refused | Self::TooLong | Self::Internal)
    }

    /// Whether another provider may be asked, as long as nothing was streamed.
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

    /// Whether it speaks against the provider, so that it counts for its breaker.
    pub fn counts_for_breaker(self) -> bool {
        matches!(self, Self::Unavailable | Self::SilentAtStart | Self::Stalled | Self::Died)
    }
}
