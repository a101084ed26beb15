//! What a client asks, once a dialect has decoded it, and why it may be refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::{PromptId, SessionId, StorageError, TraceId};

/// How many passages may be asked for.
pub const TOP_K: RangeInclusive<u32> = 1..=20;

/// The longest idempotency key.
pub const MAX_KEY_CHARS: usize = 200;

/// A request to answer a question, in any dialect.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The session it belongs to.
    pub session: SessionId,
    /// What is done if that session is not there, or was idle too long.
    pub session_policy: SessionPolicy,
    /// What is asked.
    pub question: Question,
    /// What is done if nothing is found for it.
    pub when_nothing_found: WhenNothingFound,
    /// What becomes of the prompt when its client leaves.
    pub on_disconnect: OnDisconnect,
    /// A retry with the same key joins the prompt that has it.
    pub key: Option<String>,
    /// The trace of the request.
    pub trace: TraceId,
}

/// PromptFilter sessions a question may be asked in. One that was ended takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPolicy {
    /// The session must exist and must not have expired.
    RequireActive,
    /// The session must exist; an expired one continues where it was.
    ReviveExpired,
    /// An expired session continues; a missing one is created.
    CreateIfMissing,
}

/// What becomes of a prompt when its last reader leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisconnect {
    /// The prompt keeps running for the resume window, so that the reader can reconnect.
    Continue,
    /// The prompt is cancelled at once.
    Cancel,
}

/// What is done with a question for which nothing is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNothingFound {
    /// The model is asked, and told that nothing was found.
    Answer,
    /// It is said in a fixed sentence, and no model is asked.
    SaySo,
}

/// What is asked. Two requests with one key are the same request if their questions are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The words.
    pub text: String,
    /// How many passages to find.
    pub top_k: u32,
    /// Where to look for them.
    pub scope: SearchScope,
    /// RetrievedPassages whose cosine with the question is less are left out.
    pub threshold: Option<f32>,
    /// The one provider to ask, instead of the configured order.
    pub provider: Option<String>,
}

/// Where passages are looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchScope {
    /// In what of the knowledge base passes these filters.
    Knowledge(Filters),
    /// In this text, which came with the question, and nowhere else.
    Selection(Arc<str>),
}

impl Default for SearchScope {
    /// The whole knowledge base.
    fn default() -> Self {
        Self::Knowledge(Filters::new())
    }
}

/// PromptFilter documents may be found: every field must match, by any of its values.
pub type Filters = BTreeMap<FilterField, BTreeSet<String>>;

/// What of a document a filter looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterField {
    /// The repository.
    RepoUrl,
    /// The path in it; a glob.
    FilePath,
    /// The programming language.
    Language,
    /// The collection.
    Collection,
    /// The title.
    Title,
    /// Where a reader can open it.
    SourceUrl,
    /// The innermost heading above a chunk.
    SectionHeading,
    /// A metadata entry.
    Metadata(String),
}

/// Why a client cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// A person pressed the button; the default.
    UserInitiated,
    /// The client would not wait any longer.
    Timeout,
    /// Something failed on the client's side.
    Error,
}

/// Why a call was refused at the door. Each dialect maps it to a status and a body in one table.
#[derive(Clone, Debug)]
pub enum Rejection {
    /// Something in the request is wrong; the message says what and what is allowed.
    Invalid(String),
    /// No such session.
    SessionNotFound,
    /// The session that was to be asked in is unknown, has ended or has expired.
    SessionNotUsable,
    /// No such prompt, or it has ended where a running one is needed.
    PromptNotFound,
    /// The session's running prompt must end first.
    PromptInFlight(PromptId),
    /// The key belongs to another request.
    KeyReused,
    /// No room; asking again after that long may help.
    Overloaded {
        /// What is full.
        message: String,
        /// When to ask again.
        retry_after: Duration,
    },
    /// The server is stopping.
    Stopping,
    /// Storage takes no new work.
    StorageUnavailable(String),
    /// A bug of ours.
    Internal(String),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(message) | Self::Internal(message) | Self::Overloaded { message, .. } => {
                f.write_str(message)
            }
            Self::SessionNotFound => f.write_str("there is no such session"),
            Self::SessionNotUsable => {
                f.write_str("there is no such session, or it has ended: start a new one")
            }
            Self::PromptNotFound => f.write_str("there is no such prompt, or it has already ended"),
            Self::PromptInFlight(prompt) => write!(
                f,
                "prompt {prompt} of this session is still running: read it to its end or cancel it, then ask again"
            ),
            Self::KeyReused => f.write_str(
                "this idempotency key belongs to another request: use a new key for a new request",
            ),
            Self::Stopping => f.write_str("the server is stopping: ask again in a moment"),
            Self::StorageUnavailable(reason) => write!(f, "storage is unavailable: {reason}"),
        }
    }
}

impl std::error::Error for Rejection {}

impl From<StorageError> for Rejection {
    fn from(error: StorageError) -> Self {
        Self::StorageUnavailable(error.to_string())
    }
}
