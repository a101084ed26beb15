//! The store on disk, for one process: running logs in the journal, everything else in `history.db`.
//!
//! A prompt's claim and its end are transactions of the history; its batches in between go to the journal only. If
//! the history cannot store an end, readers see `interrupted` instead, and the end is stored as soon as it can be.

mod history;
mod journal;
mod log_cache;
mod log_codec;
mod open;
mod recovery;
mod unrecorded_ends;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Batch, Claim, EndCause, Ended, EndedSession, Event, Exchange, History, Journal, NewPrompt, Principal,
    Prompt, PromptFilter, PromptId, PromptStatus, RetentionProgress, Run, Session, SessionId, Sessions, Step,
    StorageError, Timestamp, Turn,
};

use crate::io_error;
use crate::sqlite::{Database, Durability};
use history::claims::{self, ClaimCheck};
pub(crate) use history::schema::HISTORY_SCHEMA;
use history::{finish, prompts, retention, sessions};
pub use journal::JournalLimits;
use journal::{AppendReceipt, GroupSync, SegmentJournal};
use log_cache::LogCache;
use unrecorded_ends::UnrecordedEnds;

/// The store on disk. One process at a time has its folder open.
pub struct DurableStore {
    database: Database,
    journal: Arc<SegmentJournal>,
    /// With [`Durability::Power`] only.
    group_sync: Option<GroupSync>,
    unrecorded_ends: UnrecordedEnds,
    log_cache: LogCache,
    /// Holds the folder's lock until the store is dropped.
    _lock: File,
}

/// Where a [`DurableStore`] is, and its bounds.
#[derive(Clone, Debug)]
pub struct DurableStoreSettings {
    /// The data folder. It is created if it is missing.
    pub folder: PathBuf,
    /// What a visible event survives.
    pub durability: Durability,
    /// The bounds of the journal.
    pub journal: JournalLimits,
    /// Size of the cache of ended logs, in bytes.
    pub cache_bytes: usize,
}

#[async_trait]
impl Sessions for DurableStore {
    async fn create(&self, who: &Principal, session: Session) -> Result<(), StorageError> {
        let who = who.clone();
        self.database.write(move |db| sessions::create(db, &who, &session)).await
    }

    async fn find(&self, who: &Principal, id: SessionId) -> Result<Option<Session>, StorageError> {
        let (unrecorded, who) = (self.unrecorded_ends.of(who), who.clone());
        let mut session = self.database.read(move |db| sessions::find(db, &who, id)).await?;
        session.iter_mut().for_each(|session| free_if_ended(session, &unrecorded));
        Ok(session)
    }

    async fn touch(
        &self,
        who: &Principal,
        id: SessionId,
        at: Timestamp,
        alive_since: Timestamp,
    ) -> Result<(), StorageError> {
        let who = who.clone();
        self.database.write(move |db| sessions::touch_if_alive(db, &who, id, at, alive_since)).await
    }

    async fn end(&self, who: &Principal, id: SessionId) -> Result<Option<EndedSession>, StorageError> {
        let _ = self.write_unrecorded_ends().await;
        let who = who.clone();
        self.database.write(move |db| sessions::end(db, &who, id)).await
    }

    async fn alive(&self, alive_since: Timestamp) -> Result<u64, StorageError> {
        self.database.read(move |db| sessions::count_alive(db, alive_since)).await
    }
}

#[async_trait]
impl Journal for DurableStore {
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        let mended = self.write_unrecorded_ends().await;
        let claim = self.decide_claim(who, new).await?;
        match claim {
            // The prompt has ended for its readers, but the history does not know yet.
            Claim::SessionBusy(prompt) if self.unrecorded_ends.contains(who, prompt) => {
                mended.map(|()| claim)
            }
            _ => Ok(claim),
        }
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        let position = batch.first().map_or(0, |first| first.position);
        let appended = self.journal.append(run.prompt, batch).map_err(journal_failed)?;
        let appended = appended.ok_or_else(|| not_a_continuation(run.prompt))?;
        delete_in_background(appended.obsolete);
        self.sync(appended.sequence).await.inspect_err(|_| self.journal.retract(run.prompt, position))
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        let Run { prompt, who } = run;
        let log = self.journal.log(prompt).filter(|log| continues(log, &last));
        let mut log = log.ok_or_else(|| not_a_continuation(prompt))?;
        log.push(last.clone());
        let owner = who.clone();
        let recorded = self.database.write(move |db| finish::finish(db, &owner, prompt, &log)).await;
        match recorded {
            Ok(()) => self.remove_running(prompt),
            Err(_) => self.end_unrecorded(who, prompt, &last).await,
        }
        recorded
    }

    async fn write_unrecorded_ends(&self) -> Result<(), StorageError> {
        let mut mended = Ok(());
        for (who, prompt) in self.unrecorded_ends.all() {
            if let Some(log) = self.journal.log(prompt)
                && let Err(error) =
                    self.database.write(move |db| finish::finish(db, &who, prompt, &log)).await
            {
                mended = Err(error);
                continue;
            }
            self.unrecorded_ends.remove(prompt);
            self.remove_running(prompt);
        }
        mended
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.write_unrecorded_ends().await?;
        if self.journal.has_failed() {
            self.probe_journal().await?;
        }
        self.database.health().await
    }

    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        if let Some(log) = self.log_cache.get(who, id) {
            return Ok(Some(log));
        }
        if self.unrecorded_ends.contains(who, id)
            && let Some(log) = self.journal.log(id)
        {
            return Ok(Some(log));
        }
        let (owner, deletions) = (who.clone(), self.log_cache.deletions());
        let Some(stored) = self.database.read(move |db| prompts::log(db, &owner, id)).await? else {
            return Ok(None);
        };
        let bytes = stored.body.len();
        let decoded = tokio::task::spawn_blocking(move || stored.decode()).await;
        let decoded =
            decoded.unwrap_or_else(|panic| Err(StorageError::other(panic.to_string()).caused_by(panic)));
        let log = decoded.map_err(|error| {
            let message = format!("prompt {id}: {error}");
            error.with_message(message)
        })?;
        self.log_cache.insert(who, id, &log, bytes, deletions);
        Ok(Some(log))
    }
}

#[async_trait]
impl History for DurableStore {
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError> {
        let (unrecorded, who) = (self.unrecorded_ends.of(who), who.clone());
        let mut prompt = self.database.read(move |db| prompts::find(db, &who, id)).await?;
        prompt.iter_mut().for_each(|prompt| fail_if_ended(prompt, &unrecorded));
        Ok(prompt)
    }

    async fn thread(&self, who: &Principal, last: PromptId, limit: usize) -> Result<Vec<Turn>, StorageError> {
        let who = who.clone();
        self.database.read(move |db| prompts::thread(db, &who, last, limit)).await
    }

    async fn conversation(
        &self,
        who: &Principal,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Exchange>, StorageError> {
        let owner = who.clone();
        let newest = self.database.read(move |db| prompts::newest_turns(db, &owner, session, limit)).await?;
        let mut exchanges = Vec::with_capacity(newest.len());
        for prompt in newest.into_iter().rev() {
            // An unreadable log costs its own exchange and no other.
            let log = self.read(who, prompt).await.unwrap_or_else(|reason| {
                tracing::warn!(%prompt, %reason, "an exchange is left out of its conversation");
                None
            });
            let log = log.unwrap_or_default();
            exchanges.extend(Exchange::of(log.iter().flat_map(|batch| batch.iter())));
        }
        Ok(exchanges)
    }

    async fn sessions(
        &self,
        who: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StorageError> {
        let (unrecorded, who) = (self.unrecorded_ends.of(who), who.clone());
        let mut sessions = self.database.read(move |db| sessions::page(db, &who, before, limit)).await?;
        sessions.iter_mut().for_each(|session| free_if_ended(session, &unrecorded));
        Ok(sessions)
    }

    async fn prompts(
        &self,
        who: &Principal,
        which: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, StorageError> {
        let (unrecorded, who) = (self.unrecorded_ends.of(who), who.clone());
        let mut prompts = self.database.read(move |db| prompts::newest(db, &who, which, limit)).await?;
        prompts.iter_mut().for_each(|prompt| fail_if_ended(prompt, &unrecorded));
        prompts.retain(|prompt| which.status.is_none_or(|status| prompt.status == status));
        Ok(prompts)
    }

    async fn delete_session(&self, who: &Principal, id: SessionId) -> Result<bool, StorageError> {
        let _ = self.write_unrecorded_ends().await;
        let who = who.clone();
        let Some(prompts) = self.database.write(move |db| retention::delete_session(db, &who, id)).await?
        else {
            return Ok(false);
        };
        prompts.into_iter().for_each(|prompt| self.log_cache.delete(prompt));
        Ok(true)
    }

    async fn delete_older_than(&self, time: Timestamp) -> Result<RetentionProgress, StorageError> {
        let (prompts, progress) = self.database.write(move |db| retention::delete_slice(db, time)).await?;
        prompts.into_iter().for_each(|prompt| self.log_cache.delete(prompt));
        Ok(progress)
    }
}

impl DurableStore {
    async fn decide_claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        let who = who.clone();
        if !new.room {
            // Without room no prompt starts, so there is nothing to write.
            let check = self.database.read(move |db| claims::check(db, &who, &new)).await?;
            return Ok(match check {
                ClaimCheck::MayStart(_) => Claim::NoRoom,
                ClaimCheck::Decided(claim) => claim,
            });
        }
        if self.journal.has_failed() {
            self.probe_journal().await?;
        }
        let (claim, beginning) = self.database.write(move |db| claims::claim(db, &who, new)).await?;
        if let (Claim::Started(run, _), Some(beginning)) = (&claim, beginning) {
            self.journal.start(run.prompt, beginning);
        }
        Ok(claim)
    }

    /// Tests a journal that has failed, before a prompt starts whose batches it could not store.
    async fn probe_journal(&self) -> Result<(), StorageError> {
        let journal = self.journal.clone();
        let probe = tokio::task::spawn_blocking(move || journal.probe()).await;
        let probe = probe.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        self.sync(probe.map_err(journal_failed)?).await
    }

    async fn sync(&self, sequence: u64) -> Result<(), StorageError> {
        let Some(group_sync) = &self.group_sync else { return Ok(()) };
        group_sync.sync(sequence).await.map_err(journal_failed)
    }

    /// Ends a prompt whose end the history could not store: readers see `interrupted` at its position, which the
    /// journal stores if it can, until the history takes it.
    async fn end_unrecorded(&self, who: Principal, prompt: PromptId, last: &Batch) {
        let step = Step::Ended(Box::new(Ended::interrupted(EndCause::Journal)));
        let end = last.first().map(|refused| Event { step, ..refused.clone() });
        let appended = self.journal.append_end(prompt, end.into_iter().collect());
        self.unrecorded_ends.add(who, prompt);
        if let Some(AppendReceipt { sequence, obsolete }) = appended {
            delete_in_background(obsolete);
            let _ = self.sync(sequence).await;
        }
    }

    fn remove_running(&self, prompt: PromptId) {
        delete_in_background(self.journal.remove(prompt));
    }
}

/// A prompt with an unrecorded end has failed, as its readers see it.
fn fail_if_ended(prompt: &mut Prompt, unrecorded: &HashSet<PromptId>) {
    if prompt.status == PromptStatus::InFlight && unrecorded.contains(&prompt.id) {
        prompt.status = PromptStatus::Error;
    }
}

/// A prompt with an unrecorded end does not run in its session any more.
fn free_if_ended(session: &mut Session, unrecorded: &HashSet<PromptId>) {
    session.running = session.running.filter(|prompt| !unrecorded.contains(prompt));
}

/// Deletes segments without delaying the caller.
fn delete_in_background(obsolete: Vec<PathBuf>) {
    if !obsolete.is_empty() {
        tokio::task::spawn_blocking(move || obsolete.iter().for_each(|path| journal::delete_segment(path)));
    }
}

fn journal_failed(error: io::Error) -> StorageError {
    io_error::storage_error("the journal cannot be written", error)
}

/// Whether a batch starts at the next position of a log.
fn continues(log: &[Batch], batch: &Batch) -> bool {
    let next = log.last().and_then(|batch| batch.last()).map_or(0, |last| last.position + 1);
    batch.first().is_some_and(|first| first.position == next)
}

fn not_a_continuation(prompt: PromptId) -> StorageError {
    StorageError::other(format!("prompt {prompt} does not run, or the batch does not continue its log"))
}
