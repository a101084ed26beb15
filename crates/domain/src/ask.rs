//! What a client asks for, decoded from any dialect, and why a call is rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::{PromptId, SessionId, StorageError, TraceId};

/// The accepted numbers of requested passages.
pub const TOP_K: RangeInclusive<u32> = 1..=20;

/// Maximum length of an idempotency key, in characters.
pub const MAX_KEY_CHARS: usize = 200;

/// A request to answer a question, independent of the dialect it came in.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The session to ask in.
    pub session: SessionId,
    /// What to do if that session is missing or expired.
    pub session_policy: SessionPolicy,
    /// What is asked.
    pub question: Question,
    /// What to do if retrieval finds nothing.
    pub when_nothing_found: WhenNothingFound,
    /// What to do when the last reader of the answer disconnects.
    pub on_disconnect: OnDisconnect,
    /// The client's idempotency key. A retry with the same key joins the prompt that was started with it.
    pub key: Option<String>,
    /// The trace of the request, for logs and error bodies.
    pub trace: TraceId,
}

/// Which sessions a question may be asked in. A session that was ended accepts none under any policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPolicy {
    /// The session must exist and must not have expired.
    RequireActive,
    /// The session must exist; an expired one continues where it was.
    ReviveExpired,
    /// An expired session continues; a missing one is created.
    CreateIfMissing,
}

/// What to do with a prompt when its last reader disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDisconnect {
    /// The prompt keeps running for the resume window, so that the reader can reconnect.
    Continue,
    /// The prompt is cancelled at once.
    Cancel,
}

/// What to do with a question for which retrieval finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNothingFound {
    /// Call the model, with an instruction that says that nothing was found.
    Answer,
    /// Answer with a fixed sentence, without a model call.
    SaySo,
}

/// A question and how to answer it. A retry with the same idempotency key must carry an equal question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The user's text.
    pub text: String,
    /// Maximum number of passages in the prompt, within [`TOP_K`].
    pub top_k: u32,
    /// Where to search for passages.
    pub scope: SearchScope,
    /// Minimum cosine of question and passage; passages below it are left out.
    pub threshold: Option<f32>,
    /// The name of the one provider to call, instead of the configured fallback order.
    pub provider: Option<String>,
}

/// Where passages are searched for.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchScope {
    /// In the documents of the knowledge base that match these filters.
    Knowledge(Filters),
    /// In this text only, which the client sent with the question.
    Selection(Arc<str>),
}

impl Default for SearchScope {
    /// The whole knowledge base.
    fn default() -> Self {
        Self::Knowledge(Filters::new())
    }
}

/// Which documents are searched. A document matches if every field matches, and a field matches if any of its
/// values does.
pub type Filters = BTreeMap<FilterField, BTreeSet<String>>;

/// The property of a document or chunk that a filter compares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterField {
    /// The repository, or other root, of the document.
    RepoUrl,
    /// The path within the repository; the value is a glob pattern.
    FilePath,
    /// The programming language of the document.
    Language,
    /// The collection that holds the document.
    Collection,
    /// The title of the document.
    Title,
    /// The address at which a reader can open the document.
    SourceUrl,
    /// The innermost heading above the chunk.
    SectionHeading,
    /// The metadata entry with this name.
    Metadata(String),
}

/// Why a client cancels a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The user pressed stop; the default.
    UserInitiated,
    /// The client's own timeout elapsed.
    Timeout,
    /// The client failed.
    Error,
}

/// Why a call was rejected before any work began. Each dialect maps the variants to statuses and bodies in
/// one table.
#[derive(Clone, Debug)]
pub enum Rejection {
    /// The request is malformed; the message says what is wrong and what is allowed.
    Invalid(String),
    /// The session does not exist.
    SessionNotFound,
    /// The session to ask in does not exist, has ended or has expired.
    SessionNotUsable,
    /// The prompt does not exist, or has ended and the call needs a running one.
    PromptNotFound,
    /// The session has a running prompt, and runs one at a time.
    PromptInFlight(PromptId),
    /// The idempotency key belongs to a prompt with a different question.
    KeyReused,
    /// A queue or a bound is full; a retry after the given time may succeed.
    Overloaded {
        /// What is full.
        message: String,
        /// Suggested delay before the next attempt.
        retry_after: Duration,
    },
    /// The server is shutting down.
    Stopping,
    /// The store accepts no writes; the message says why.
    StorageUnavailable(String),
    /// A bug in the server.
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
