//! The journal: who may run a prompt, and the logs of prompts.

use async_trait::async_trait;

use crate::{Accepted, Batch, Principal, PromptId, StorageError, Timestamp};

/// Keeps the logs. Uniqueness of a key and one running prompt per session are decided here, in one
/// transaction, so that they hold however many servers share the store.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Starts a prompt, or says why not. In this order: the session must be known; a key that has a
    /// prompt joins it, also in an ended session; the session must be alive; nothing else may run in it; there
    /// must be room.
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError>;

    /// Appends to a running log. Durable when it returns.
    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError>;

    /// Appends the last batch, whose last event is the terminal one, and folds the log: status, token
    /// count and turn are kept, the session is free. All or nothing. If it fails, the journal ends the
    /// prompt by itself as soon as it can: with [`crate::Ended::interrupted`] by the journal, at the place and time
    /// of the terminal event that it did not take, which is what readers are told.
    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError>;

    /// Ends the prompts whose ends `finish` could not take, if it can now.
    async fn mend(&self) -> Result<(), StorageError>;

    /// Whether new prompts could be kept now.
    async fn health(&self) -> Result<(), StorageError> {
        self.mend().await
    }

    /// The whole log of an ended prompt; none while it runs.
    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError>;
}

/// A prompt that wants to be started.
#[derive(Clone, Debug)]
pub struct NewPrompt {
    /// What its log will begin with. Without `follows` it follows its session's last turn.
    pub accepted: Box<Accepted>,
    /// When.
    pub at: Timestamp,
    /// A session that did nothing since then has expired.
    pub alive_since: Timestamp,
    /// Whether there is room to run it; without room it can only join.
    pub room: bool,
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claim {
    /// It runs; its log begins with this, and it is complete now.
    Started(Run, Box<Accepted>),
    /// Its key has this prompt already, running or ended.
    Joined(PromptId),
    /// Its key has a prompt that asked something else.
    KeyReused,
    /// This prompt runs in the session.
    SessionBusy(PromptId),
    /// There is no such session.
    SessionUnknown,
    /// The session was ended, or was idle too long.
    SessionEnded,
    /// It would start, if there were room.
    NoRoom,
}

/// The right to append to one prompt's log; given once, and given up by finishing.
#[derive(Debug)]
pub struct Run {
    /// The prompt.
    pub prompt: PromptId,
    /// On whose behalf it runs.
    pub who: Principal,
}
