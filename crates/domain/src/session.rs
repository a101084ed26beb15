//! A session: one conversation and its liveness.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Principal, PromptId, SessionId, StorageError, Timestamp};

/// A title is no longer than this.
const TITLE_CHARS: usize = 200;

/// A conversation as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is, as the client said; an organisation or repository.
    pub owner: Option<String>,
    /// What the client wants kept with it.
    pub context: BTreeMap<String, String>,
    /// Its first question, or the beginning of it.
    pub title: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last did something: submit, resume, cancel or end of a prompt.
    pub last_active_at: Timestamp,
    /// The prompt that runs in it.
    pub running: Option<PromptId>,
    /// Whether and how it was ended for good.
    pub ended: Option<SessionEnd>,
    /// Prompts so far.
    pub prompt_count: u64,
    /// Tokens of its ended prompts.
    pub token_count: u64,
}

impl Session {
    /// A session that has done nothing yet.
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

    /// Takes the title from a question, if it has none yet.
    pub fn set_title_once(&mut self, question: &str) {
        self.title.get_or_insert_with(|| question.chars().take(TITLE_CHARS).collect());
    }

    /// Whether prompts may be asked in it. A running prompt keeps a session alive.
    pub fn is_alive(&self, alive_since: Timestamp) -> bool {
        self.ended.is_none() && (self.running.is_some() || self.last_active_at > alive_since)
    }

    /// What the session is at `now`, if it may be idle that long. Computed, so nothing has to sweep.
    pub fn status(&self, now: Timestamp, idle: Duration) -> SessionStatus {
        match self.ended {
            Some(SessionEnd::Cancelled) => SessionStatus::Cancelled,
            Some(SessionEnd::Lost) => SessionStatus::Error,
            None if self.is_alive(now.minus(idle)) => SessionStatus::Active,
            Some(SessionEnd::Completed) | None => SessionStatus::Completed,
        }
    }
}

/// How a session came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// A client ended it, and nothing ran in it.
    Completed,
    /// A client ended it, and cut a running prompt short.
    Cancelled,
    /// What ran in it could not be recovered.
    Lost,
}

/// What a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    /// Prompts may be asked in it.
    Active,
    /// Ended, or idle too long.
    Completed,
    /// Ended while a prompt was running.
    Cancelled,
    /// Lost by the server, with a prompt that was running in it.
    Error,
}

/// What a client says of a new session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSession {
    /// Whose it is.
    pub owner: Option<String>,
    /// What is to be kept with it.
    pub context: BTreeMap<String, String>,
}

/// What ending a session found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// The prompt that was running in it, to be cancelled now.
    pub running: Option<PromptId>,
    /// Whether this ended it; false if it had been ended before.
    pub is_first: bool,
}

/// Keeps sessions.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Keeps a new session. One that is there already stays as it is.
    async fn create(&self, who: &Principal, session: Session) -> Result<(), StorageError>;

    /// The session with this id.
    async fn find(&self, who: &Principal, id: SessionId) -> Result<Option<Session>, StorageError>;

    /// Notes that the session did something, unless it is not alive any more.
    async fn touch(
        &self,
        who: &Principal,
        id: SessionId,
        at: Timestamp,
        alive_since: Timestamp,
    ) -> Result<(), StorageError>;

    /// Ends the session for good; from then on it takes no prompt. None if there is no such session.
    async fn end(&self, who: &Principal, id: SessionId) -> Result<Option<EndedSession>, StorageError>;

    /// How many sessions are alive, of every tenant: those that [`Session::is_alive`] says so of.
    async fn alive(&self, alive_since: Timestamp) -> Result<u64, StorageError>;
}
