//! What was asked and answered.

use async_trait::async_trait;

use crate::{Event, Outcome, Principal, PromptId, SessionId, Step, StorageError, Timestamp};

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

/// Reads what is kept of ended prompts.
#[async_trait]
pub trait History: Send + Sync {
    /// The prompt with this id, running or ended.
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError>;

    /// The turns that lead to `last`, walked along `follows`: at most `limit`, the oldest first.
    async fn thread(&self, who: &Principal, last: PromptId, limit: usize) -> Result<Vec<Turn>, StorageError>;
}
