//! Readers: how clients see a log, live or ended, from its first event.

use std::sync::Arc;
use std::task::{Context, Poll};

use domain::{Batch, Principal, PromptId, Rejection, SessionId};
use tokio::sync::OwnedSemaphorePermit;

use crate::live::{Live, Stake};
use crate::log::{Cursor, Log};
use crate::{Engine, admit};

/// Reads one prompt's log from its first event to its last.
pub struct Reader {
    prompt: PromptId,
    session: SessionId,
    cursor: Cursor,
    /// Keeps the prompt from being abandoned; an observer has none, and nobody has one in an ended prompt.
    _stake: Option<Stake>,
    _permit: OwnedSemaphorePermit,
}

impl Reader {
    pub(crate) fn of_live(live: &Arc<Live>, stake: Option<Stake>, permit: OwnedSemaphorePermit) -> Self {
        let cursor = live.log.cursor();
        Self { prompt: live.prompt, session: live.session, cursor, _stake: stake, _permit: permit }
    }

    fn of_ended(prompt: PromptId, session: SessionId, log: Vec<Batch>, permit: OwnedSemaphorePermit) -> Self {
        let cursor = Arc::new(Log::ended_with(log)).cursor();
        Self { prompt, session, cursor, _stake: None, _permit: permit }
    }

    /// The prompt it reads.
    pub fn prompt(&self) -> PromptId {
        self.prompt
    }

    /// The prompt's session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The whole log, if it has ended.
    pub fn ended_log(&self) -> Option<Vec<Batch>> {
        self.cursor.log().ended_batches()
    }

    /// The next batch; none after the terminal one. Waits while the prompt runs and nothing is new.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Batch>> {
        self.cursor.poll_next(cx)
    }
}

/// Whether a reader keeps its prompt from being abandoned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// While it reads, and as long after it left as the prompt goes on for whoever asked it.
    Stake,
    Observe,
}

impl Engine {
    /// Reads a prompt, running or ended. While the reader lives the prompt is not abandoned, nor for the resume
    /// window after it, unless it is one that ends with its reader.
    pub async fn read(&self, who: &Principal, prompt: PromptId) -> Result<Reader, Rejection> {
        let reader = self.attach(who, prompt, Interest::Stake, self.reader_permit()?).await?;
        self.touch(who, reader.session).await;
        Ok(reader)
    }

    /// Looks on while others read a prompt, or not: for it, nothing depends on this reader.
    pub async fn observe(&self, who: &Principal, prompt: PromptId) -> Result<Reader, Rejection> {
        self.attach(who, prompt, Interest::Observe, self.reader_permit()?).await
    }

    pub(crate) fn reader_permit(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        let readers = self.shared.readers.clone();
        readers
            .try_acquire_owned()
            .map_err(|_| admit::overloaded("every reader place is taken (limits.readers)"))
    }

    /// A running prompt is read from its live log. One that is not among the running has ended, and the
    /// journal has it whole: a prompt is taken off the running ones only after that.
    pub(crate) async fn attach(
        &self,
        who: &Principal,
        prompt: PromptId,
        interest: Interest,
        permit: OwnedSemaphorePermit,
    ) -> Result<Reader, Rejection> {
        if let Some(live) = self.shared.running.get(prompt).filter(|live| live.who == *who) {
            let stake = match interest {
                Interest::Stake => live.stake(live.lingering),
                Interest::Observe => None,
            };
            return Ok(Reader::of_live(&live, stake, permit));
        }
        let ports = &self.shared.ports;
        let summary = ports.history.prompt(who, prompt).await?.ok_or(Rejection::PromptNotFound)?;
        let log = ports.journal.read(who, prompt).await?.ok_or(Rejection::PromptNotFound)?;
        Ok(Reader::of_ended(prompt, summary.session, log, permit))
    }

    /// Notes that a session did something. If that cannot be kept, the session may expire a little early, and
    /// nobody is refused what they came for.
    pub(crate) async fn touch(&self, who: &Principal, session: SessionId) {
        let now = self.shared.ports.clock.now();
        let alive_since = now.minus(self.shared.limits.idle);
        if let Err(reason) = self.shared.ports.sessions.touch(who, session, now, alive_since).await {
            tracing::warn!(%session, %reason, "that a session did something could not be kept");
        }
    }
}
