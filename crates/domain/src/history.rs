//! Ended and running prompts as clients list them, and their retention.

use async_trait::async_trait;

use crate::{
    Event, MessageId, Outcome, Principal, PromptId, RetrievedPassages, SearchScope, Session, SessionId, Step,
    StorageError, Timestamp,
};

/// A summary of a prompt, folded from its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its id.
    pub id: PromptId,
    /// Its session.
    pub session: SessionId,
    /// The text of the question.
    pub text: String,
    /// The client's idempotency key.
    pub key: Option<String>,
    /// Where it stands.
    pub status: PromptStatus,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// Tokens of the answer.
    pub token_count: u64,
}

/// The status of a prompt. It changes once, from in flight to one of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStatus {
    /// Running.
    InFlight,
    /// Ended with an answer.
    Done,
    /// Cancelled before the end.
    Cancelled,
    /// Ended with a failure.
    Error,
}

impl From<&Outcome> for PromptStatus {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done(_) => Self::Done,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Failed(_) => Self::Error,
        }
    }
}

/// Which prompts a list contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptFilter {
    /// Only prompts of this session.
    pub session: Option<SessionId>,
    /// Only prompts with this status.
    pub status: Option<PromptStatus>,
}

/// A question and its answer, which may be incomplete: a pure function of the prompt's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The user's text.
    pub question: String,
    /// The model's text.
    pub answer: String,
}

impl Turn {
    /// The turn in a log; `None` if the answer has no text.
    pub fn of<'a>(log: impl IntoIterator<Item = &'a Event>) -> Option<Self> {
        let mut turn = Self { question: String::new(), answer: String::new() };
        for event in log {
            match &event.step {
                Step::Accepted(accepted) => turn.question.clone_from(&accepted.question.text),
                Step::Text(text) => turn.answer.push_str(text),
                _ => {}
            }
        }
        (!turn.answer.is_empty()).then_some(turn)
    }
}

/// A turn as a conversation shows it, with the passages in its prompt: a pure function of the prompt's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The prompt, whose id is also that of the question as a message.
    pub prompt: PromptId,
    /// The id of the answer as a message.
    pub answer: MessageId,
    /// When the prompt was admitted.
    pub asked_at: Timestamp,
    /// When the answer ended.
    pub answered_at: Timestamp,
    /// Where passages were searched for.
    pub scope: SearchScope,
    /// What was said.
    pub turn: Turn,
    /// The number of passages found, and those in the prompt.
    pub passages: RetrievedPassages,
}

impl Exchange {
    /// The exchange in an ended log; `None` if the answer has no text.
    pub fn of<'a>(log: impl IntoIterator<Item = &'a Event> + Clone) -> Option<Self> {
        let turn = Turn::of(log.clone())?;
        let (mut accepted, mut passages, mut answered_at) = (None, RetrievedPassages::default(), None);
        for event in log {
            answered_at = Some(event.at);
            match &event.step {
                Step::Accepted(first) => accepted = Some((first, event.at)),
                Step::Passages(found) => passages.clone_from(found),
                _ => {}
            }
        }
        let (accepted, asked_at) = accepted?;
        let (prompt, answer, scope) = (accepted.prompt, accepted.answer, accepted.question.scope.clone());
        Some(Self { prompt, answer, asked_at, answered_at: answered_at?, scope, turn, passages })
    }
}

/// Reads stored prompts and sessions, and deletes them.
#[async_trait]
pub trait History: Send + Sync {
    /// The prompt with this id, running or ended.
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError>;

    /// The turns that lead to `last`, found along `follows`: at most `limit`, the oldest first.
    async fn thread(&self, who: &Principal, last: PromptId, limit: usize) -> Result<Vec<Turn>, StorageError>;

    /// The newest exchanges of a session: at most `limit`, the oldest first.
    async fn conversation(
        &self,
        who: &Principal,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Exchange>, StorageError>;

    /// Sessions created before the given one, the newest first.
    async fn sessions(
        &self,
        who: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StorageError>;

    /// The newest prompts that match the filter, the newest first.
    async fn prompts(
        &self,
        who: &Principal,
        which: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, StorageError>;

    /// Deletes a session with its prompts, logs and turns. Returns false if it does not exist or has a
    /// running prompt.
    async fn delete_session(&self, who: &Principal, id: SessionId) -> Result<bool, StorageError>;

    /// Deletes a slice of the ended prompts older than `time`, then of the sessions inactive since, of every
    /// tenant. A slice takes a few milliseconds; the caller repeats it while there is more.
    async fn delete_older_than(&self, time: Timestamp) -> Result<RetentionProgress, StorageError>;
}

/// The result of one slice of retention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionProgress {
    /// The token counts of the deleted sessions that had expired without having been ended.
    pub expired: Vec<u64>,
    /// Whether there is more to delete.
    pub more: bool,
}
