//! Sessions: conversations, their lifetime and their store.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Principal, PromptId, SessionId, StorageError, Timestamp};

/// Maximum length of a title, in characters.
const TITLE_CHARS: usize = 200;

/// A conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The owner that the client named, such as an organisation or a repository.
    pub owner: Option<String>,
    /// Entries that the client stores with the session.
    pub context: BTreeMap<String, String>,
    /// The beginning of the first question.
    pub title: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The last submit, resume, cancel or end of a prompt.
    pub last_active_at: Timestamp,
    /// The running prompt.
    pub running: Option<PromptId>,
    /// How the session was ended for good; `None` if it was not.
    pub ended: Option<SessionEnd>,
    /// Number of prompts so far.
    pub prompt_count: u64,
    /// Tokens of the answers of its ended prompts.
    pub token_count: u64,
}

impl Session {
    /// A session without prompts.
    pub fn new(id: SessionId, new: NewSession, now: Timestamp) -> Self {
        Self {
            id,
            owner: new.owner,
            context: new.context,
            title: None,
            created_at: now,
            last_active_at: now,
            running: None,
            ended: None,
            prompt_count: 0,
            token_count: 0,
        }
    }

    /// Takes the title from a question, unless the session has one.
    pub fn set_title_once(&mut self, question: &str) {
        self.title.get_or_insert_with(|| question.chars().take(TITLE_CHARS).collect());
    }

    /// Whether the session accepts prompts: it was not ended, and was active after `alive_since` or has a
    /// running prompt.
    pub fn is_alive(&self, alive_since: Timestamp) -> bool {
        self.ended.is_none() && (self.running.is_some() || self.last_active_at > alive_since)
    }

    /// The status at `now`, if a session expires after `idle` without activity. It is computed on demand, so
    /// that no task has to expire sessions.
    pub fn status(&self, now: Timestamp, idle: Duration) -> SessionStatus {
        match self.ended {
            Some(SessionEnd::Cancelled) => SessionStatus::Cancelled,
            Some(SessionEnd::Lost) => SessionStatus::Error,
            None if self.is_alive(now.minus(idle)) => SessionStatus::Active,
            Some(SessionEnd::Completed) | None => SessionStatus::Completed,
        }
    }
}

/// How a session was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// A client ended it while no prompt was running.
    Completed,
    /// A client ended it and so cancelled a running prompt.
    Cancelled,
    /// A prompt that was running in it could not be recovered.
    Lost,
}

/// The status of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    /// It accepts prompts.
    Active,
    /// It was ended, or has expired.
    Completed,
    /// It was ended while a prompt was running.
    Cancelled,
    /// The server lost a prompt that was running in it.
    Error,
}

/// What a client sends to create a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The owner, such as an organisation or a repository.
    pub owner: Option<String>,
    /// Entries to store with the session.
    pub context: BTreeMap<String, String>,
}

/// The result of ending a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// The prompt that was running in it; the caller cancels it.
    pub running: Option<PromptId>,
    /// Whether this call ended it, rather than an earlier one.
    pub is_first: bool,
}

/// Stores sessions.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Stores a new session. If one with this id exists, it is left as it is.
    async fn create(&self, who: &Principal, session: Session) -> Result<(), StorageError>;

    /// The session with this id.
    async fn find(&self, who: &Principal, id: SessionId) -> Result<Option<Session>, StorageError>;

    /// Sets the time of the last activity, if the session is alive.
    async fn touch(
        &self,
        who: &Principal,
        id: SessionId,
        at: Timestamp,
        alive_since: Timestamp,
    ) -> Result<(), StorageError>;

    /// Ends the session for good, so that it accepts no more prompts. Returns `None` if it does not exist.
    async fn end(&self, who: &Principal, id: SessionId) -> Result<Option<EndedSession>, StorageError>;

    /// Number of alive sessions, of every tenant, by [`Session::is_alive`].
    async fn alive(&self, alive_since: Timestamp) -> Result<u64, StorageError>;
}
