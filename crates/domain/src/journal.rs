//! The journal: which prompts may run, and the logs of prompts.

use async_trait::async_trait;

use crate::{Accepted, Batch, Principal, PromptId, StorageError, Timestamp};

/// Stores the logs of prompts.
///
/// A claim decides in one transaction that a key is unique and that a session runs one prompt, so that both
/// hold for any number of servers that share the store.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Starts a prompt, or returns why it cannot start. The checks, in this order: the session exists; the
    /// key is unused (a used one joins its prompt, also in an ended session); the session is alive; it has no
    /// running prompt; there is room.
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError>;

    /// Appends to a running log. The batch is durable when this returns.
    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError>;

    /// Appends the last batch, whose last event is the terminal one, and folds the log: stores the prompt's
    /// status, token count and turn, and frees the session. All or nothing.
    ///
    /// If it fails, the journal ends the prompt itself as soon as it can write again: with
    /// [`crate::Ended::interrupted`] by the journal, at the position and time of the rejected terminal event.
    /// Readers get the same end.
    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError>;

    /// Ends the prompts that `finish` could not end, if the journal can write again.
    async fn write_unrecorded_ends(&self) -> Result<(), StorageError>;

    /// Whether the journal can store new prompts now.
    async fn health(&self) -> Result<(), StorageError> {
        self.write_unrecorded_ends().await
    }

    /// The complete log of an ended prompt; `None` while it runs.
    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError>;
}

/// A prompt to be started.
#[derive(Clone, Debug)]
pub struct NewPrompt {
    /// The first event of its log. If `follows` is `None`, the journal sets it to the session's last turn.
    pub accepted: Box<Accepted>,
    /// The time of the claim.
    pub at: Timestamp,
    /// A session without activity since then has expired.
    pub alive_since: Timestamp,
    /// Whether the server has capacity to run it. Without, the prompt can only join.
    pub room: bool,
}

/// The result of a claim.
#[derive(Debug)]
pub enum Claim {
    /// The prompt runs, and its log begins with this event, complete with `follows`.
    Started(Run, Box<Accepted>),
    /// A prompt with this key exists, running or ended.
    Joined(PromptId),
    /// The key belongs to a prompt with a different question.
    KeyReused,
    /// The session has this running prompt.
    SessionBusy(PromptId),
    /// The session does not exist.
    SessionUnknown,
    /// The session was ended or has expired.
    SessionEnded,
    /// Only the missing capacity keeps the prompt from starting.
    NoRoom,
}

/// The exclusive right to append to one prompt's log. A claim creates it and [`Journal::finish`] consumes it.
#[derive(Debug)]
pub struct Run {
    /// The prompt.
    pub prompt: PromptId,
    /// The tenant it runs for.
    pub who: Principal,
}
