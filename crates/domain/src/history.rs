//! What was asked and answered.

use async_trait::async_trait;

use crate::{
    Event, MessageId, Outcome, Principal, PromptId, RetrievedPassages, SearchScope, Session, SessionId, Step,
    StorageError, Timestamp,
};

/// A prompt as it stands: what its log tells in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its id.
    pub id: PromptId,
    /// Its session.
    pub session: SessionId,
    /// The words of the question.
    pub text: String,
    /// The client's key.
    pub key: Option<String>,
    /// Where it stands.
    pub status: PromptStatus,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// Tokens of the answer.
    pub token_count: u64,
}

/// Where a prompt stands. Only ever from in flight to one of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStatus {
    /// Running.
    InFlight,
    /// Answered.
    Done,
    /// Cut short.
    Cancelled,
    /// Failed.
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

/// PromptFilter prompts are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptFilter {
    /// Those of this session.
    pub session: Option<SessionId>,
    /// Those that stand so.
    pub status: Option<PromptStatus>,
}

/// A question and the answer it got, whole or in part: a pure function of the prompt's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The user's words.
    pub question: String,
    /// The model's words.
    pub answer: String,
}

impl Turn {
    /// The turn that a log tells of; none if there was no text.
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

/// A turn as a conversation shows it, with what the answer was given: a pure function of the prompt's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The prompt, which is the question as a message.
    pub prompt: PromptId,
    /// The answer as a message.
    pub answer: MessageId,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When the answer came to its end.
    pub answered_at: Timestamp,
    /// Where passages were looked for.
    pub scope: SearchScope,
    /// What was said.
    pub turn: Turn,
    /// How many passages were found, and those that the model was given.
    pub passages: RetrievedPassages,
}

impl Exchange {
    /// The exchange that an ended log tells of; none if there was no text.
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

/// Reads what is kept, and forgets it.
#[async_trait]
pub trait History: Send + Sync {
    /// The prompt with this id, running or ended.
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError>;

    /// The turns that lead to `last`, walked along `follows`: at most `limit`, the oldest first.
    async fn thread(&self, who: &Principal, last: PromptId, limit: usize) -> Result<Vec<Turn>, StorageError>;

    /// What was said in a session: the newest exchanges, at most `limit`, the oldest of them first.
    async fn conversation(
        &self,
        who: &Principal,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Exchange>, StorageError>;

    /// Sessions made before the given one, the newest first.
    async fn sessions(
        &self,
        who: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StorageError>;

    /// The newest prompts, the newest first: of one session or of all, with one status or with any.
    async fn prompts(
        &self,
        who: &Principal,
        which: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, StorageError>;

    /// Removes a session with its prompts, logs and turns. False if there is none, or if a prompt runs in it.
    async fn delete_session(&self, who: &Principal, id: SessionId) -> Result<bool, StorageError>;

    /// Removes some of the ended prompts that are older than that, then of the sessions that did nothing since,
    /// of every tenant: as much as takes a few milliseconds.
    async fn delete_older_than(&self, time: Timestamp) -> Result<RetentionProgress, StorageError>;
}

/// What a slice of forgetting has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionProgress {
    /// The tokens of each session that is gone now and that nobody had ended before.
    pub expired: Vec<u64>,
    /// Whether there is more to forget.
    pub more: bool,
}
