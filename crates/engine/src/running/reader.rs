//! Readers: how clients follow the log of a prompt, running or ended, from its first event.

use std::sync::Arc;
use std::task::{Context, Poll};

use domain::{Batch, Principal, PromptId, Rejection, SessionId};
use tokio::sync::OwnedSemaphorePermit;

use crate::Engine;
use crate::admission::overloaded;
use crate::running::log::{LogCursor, PromptLog};
use crate::running::prompt::{ReaderLease, RunningPrompt};

/// Reads the log of one prompt, from its first event to its last. Occupies one reader slot until it is
/// dropped.
pub struct Reader {
    prompt: PromptId,
    session: SessionId,
    cursor: LogCursor,
    /// Keeps the prompt running. None for an observer and for an ended prompt.
    _lease: Option<ReaderLease>,
    _permit: OwnedSemaphorePermit,
}

/// Whether a reader keeps a running prompt from being abandoned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// The reader holds a lease, with the grace period of the request that started the prompt.
    KeepRunning,
    /// The reader has no influence on the prompt.
    Observe,
}

impl Engine {
    /// Reads a prompt, running or ended, and counts as activity of its session. The reader holds a lease on a
    /// running prompt: the prompt is not abandoned while the reader lives, nor within the resume window after
    /// it, unless the request that started it asked to cancel on disconnect. Fails if there is no such prompt
    /// or no reader slot.
    pub async fn read(&self, principal: &Principal, prompt: PromptId) -> Result<Reader, Rejection> {
        let reader = self.attach(principal, prompt, ReadMode::KeepRunning, self.reader_permit()?).await?;
        self.touch(principal, reader.session).await;
        Ok(reader)
    }

    /// Reads a prompt, running or ended, without a lease and without touching its session: observing never
    /// changes when the prompt ends or the session expires. Fails if there is no such prompt or no reader
    /// slot.
    pub async fn observe(&self, principal: &Principal, prompt: PromptId) -> Result<Reader, Rejection> {
        self.attach(principal, prompt, ReadMode::Observe, self.reader_permit()?).await
    }

    pub(crate) fn reader_permit(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        let slots = self.shared.reader_slots.clone();
        slots.try_acquire_owned().map_err(|_| {
            overloaded(
                "every reader slot is taken (limits.readers): ask again when a reader has disconnected",
            )
        })
    }

    /// Opens a reader on the log in memory, or on the stored log if the prompt is not running here: a prompt
    /// leaves the registry only after the journal has its terminal event, so the stored log is complete.
    pub(crate) async fn attach(
        &self,
        principal: &Principal,
        id: PromptId,
        mode: ReadMode,
        permit: OwnedSemaphorePermit,
    ) -> Result<Reader, Rejection> {
        if let Some(prompt) = self.shared.running.get_of(principal, id) {
            let lease = match mode {
                ReadMode::KeepRunning => prompt.lease(prompt.grace),
                ReadMode::Observe => None,
            };
            return Ok(Reader::of_running(&prompt, lease, permit));
        }
        let ports = &self.shared.ports;
        let summary = ports.history.prompt(principal, id).await?.ok_or(Rejection::PromptNotFound)?;
        let log = ports.journal.read(principal, id).await?.ok_or(Rejection::PromptNotFound)?;
        Ok(Reader::of_ended(id, summary.session, log, permit))
    }
}

impl Reader {
    pub(crate) fn of_running(
        prompt: &Arc<RunningPrompt>,
        lease: Option<ReaderLease>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let cursor = prompt.log.cursor();
        Self { prompt: prompt.id, session: prompt.session, cursor, _lease: lease, _permit: permit }
    }

    fn of_ended(prompt: PromptId, session: SessionId, log: Vec<Batch>, permit: OwnedSemaphorePermit) -> Self {
        let cursor = Arc::new(PromptLog::complete(log)).cursor();
        Self { prompt, session, cursor, _lease: None, _permit: permit }
    }

    /// The id of the prompt.
    pub fn prompt(&self) -> PromptId {
        self.prompt
    }

    /// The session of the prompt.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The whole log, if the prompt has ended. Does not move the reader.
    pub fn ended_log(&self) -> Option<Vec<Batch>> {
        self.cursor.log().complete_batches()
    }

    /// The next batch; none after the terminal one. Pending while the prompt runs and has no new batch.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Batch>> {
        self.cursor.poll_next(cx)
    }
}
