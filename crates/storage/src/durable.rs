//! Storage on disk, for one process: running logs in segment files, everything else in `history.db`. What a
//! reader can see survives the process; at the level `power` it survives the machine.
//!
//! Each file has one writer. The history takes sessions, claims and ends; nothing slow shares a file with
//! the appending of tokens.

mod cache;
mod claims;
mod codec;
mod ends;
mod forget;
mod found;
mod open;
mod prompts;
mod record;
mod schema;
mod segments;
mod sessions;
mod sync;
mod unfinished;

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

use cache::Cache;
use claims::Looked;
pub(crate) use schema::HISTORY;
pub use segments::JournalLimits;
use segments::{Appended, Segments};
use sync::Syncer;
use unfinished::Unfinished;

use crate::sqlite::{Database, Durability};

/// Storage on disk.
pub struct Durable {
    database: Database,
    segments: Arc<Segments>,
    /// Only at the level `power`.
    syncer: Option<Syncer>,
    unfinished: Unfinished,
    cache: Cache,
    /// Held as long as this store is open.
    _lock: File,
}

/// Where and how things are kept.
#[derive(Clone, Debug)]
pub struct DurableSettings {
    /// The folder; made if it is missing.
    pub folder: PathBuf,
    /// What a visible event survives.
    pub durability: Durability,
    /// The bounds of the journal.
    pub journal: JournalLimits,
    /// Ended logs that were read lately are kept in memory, up to so many bytes.
    pub cache_bytes: usize,
}

#[async_trait]
impl Sessions for Durable {
    async fn create(&self, who: &Principal, session: Session) -> Result<(), StorageError> {
        let who = who.clone();
        self.database.write(move |db| sessions::create(db, &who, &session)).await
    }

    async fn find(&self, who: &Principal, id: SessionId) -> Result<Option<Session>, StorageError> {
        let (unfinished, who) = (self.unfinished.of(who), who.clone());
        let mut session = self.database.read(move |db| sessions::find(db, &who, id)).await?;
        session.iter_mut().for_each(|session| show_free(session, &unfinished));
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
        let _ = self.mend().await;
        let who = who.clone();
        self.database.write(move |db| sessions::end(db, &who, id)).await
    }

    async fn alive(&self, alive_since: Timestamp) -> Result<u64, StorageError> {
        self.database.read(move |db| sessions::alive(db, alive_since)).await
    }
}

#[async_trait]
impl Journal for Durable {
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        let mended = self.mend().await;
        let claim = self.decide(who, new).await?;
        match claim {
            // It has ended for its readers, and the history does not know yet.
            Claim::SessionBusy(prompt) if self.unfinished.has(who, prompt) => mended.map(|()| claim),
            _ => Ok(claim),
        }
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        let position = batch.first().map_or(0, |first| first.position);
        let appended = self.segments.append(run.prompt, batch).map_err(|error| journal_failed(&error))?;
        let appended = appended.ok_or_else(|| no_continuation(run.prompt))?;
        remove_beside(appended.unneeded);
        self.sync(appended.record).await.inspect_err(|_| self.segments.retract(run.prompt, position))
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        let Run { prompt, who } = run;
        let log = self.segments.log(prompt).filter(|log| continues(log, &last));
        let mut log = log.ok_or_else(|| no_continuation(prompt))?;
        log.push(last.clone());
        let owner = who.clone();
        let folded = self.database.write(move |db| ends::fold(db, &owner, prompt, &log)).await;
        match folded {
            Ok(()) => self.forget_running(prompt),
            Err(_) => self.keep_unfinished(who, prompt, &last).await,
        }
        folded
    }

    async fn mend(&self) -> Result<(), StorageError> {
        let mut mended = Ok(());
        for (who, prompt) in self.unfinished.all() {
            if let Some(log) = self.segments.log(prompt)
                && let Err(error) = self.database.write(move |db| ends::fold(db, &who, prompt, &log)).await
            {
                mended = Err(error);
                continue;
            }
            self.unfinished.remove(prompt);
            self.forget_running(prompt);
        }
        mended
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.mend().await?;
        if self.segments.has_failed() {
            self.try_out().await?;
        }
        self.database.health().await
    }

    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        if let Some(log) = self.cache.get(who, id) {
            return Ok(Some(log));
        }
        if self.unfinished.has(who, id)
            && let Some(log) = self.segments.log(id)
        {
            return Ok(Some(log));
        }
        let (owner, removals) = (who.clone(), self.cache.removals());
        let Some(stored) = self.database.read(move |db| prompts::log(db, &owner, id)).await? else {
            return Ok(None);
        };
        let bytes = stored.body.len();
        let log = tokio::task::spawn_blocking(move || stored.decode()).await;
        let log = log.unwrap_or_else(|panic| Err(StorageError::other(panic.to_string())));
        let log = log.map_err(|why: StorageError| StorageError::other(format!("prompt {id}: {why}")))?;
        self.cache.put(who, id, &log, bytes, removals);
        Ok(Some(log))
    }
}

#[async_trait]
impl History for Durable {
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError> {
        let (unfinished, who) = (self.unfinished.of(who), who.clone());
        let mut prompt = self.database.read(move |db| prompts::find(db, &who, id)).await?;
        prompt.iter_mut().for_each(|prompt| show_ended(prompt, &unfinished));
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
        let tenant = who.clone();
        let said = self.database.read(move |db| prompts::newest_turns(db, &tenant, session, limit)).await?;
        let mut exchanges = Vec::with_capacity(said.len());
        for prompt in said.into_iter().rev() {
            // A log that cannot be read costs its own exchange, and no other.
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
        let (unfinished, who) = (self.unfinished.of(who), who.clone());
        let mut sessions = self.database.read(move |db| sessions::page(db, &who, before, limit)).await?;
        sessions.iter_mut().for_each(|session| show_free(session, &unfinished));
        Ok(sessions)
    }

    async fn prompts(
        &self,
        who: &Principal,
        which: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, StorageError> {
        let (unfinished, who) = (self.unfinished.of(who), who.clone());
        let mut prompts = self.database.read(move |db| prompts::newest(db, &who, which, limit)).await?;
        prompts.iter_mut().for_each(|prompt| show_ended(prompt, &unfinished));
        prompts.retain(|prompt| which.status.is_none_or(|status| prompt.status == status));
        Ok(prompts)
    }

    async fn delete_session(&self, who: &Principal, id: SessionId) -> Result<bool, StorageError> {
        let _ = self.mend().await;
        let who = who.clone();
        let Some(prompts) = self.database.write(move |db| forget::session(db, &who, id)).await? else {
            return Ok(false);
        };
        prompts.into_iter().for_each(|prompt| self.cache.remove(prompt));
        Ok(true)
    }

    async fn delete_older_than(&self, time: Timestamp) -> Result<RetentionProgress, StorageError> {
        let (prompts, forgotten) = self.database.write(move |db| forget::slice(db, time)).await?;
        prompts.into_iter().for_each(|prompt| self.cache.remove(prompt));
        Ok(forgotten)
    }
}

impl Durable {
    async fn decide(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        let who = who.clone();
        if !new.room {
            // Without room nothing starts, so nothing is written.
            let looked = self.database.read(move |db| claims::look(db, &who, &new)).await?;
            return Ok(match looked {
                Looked::MayStart(_) => Claim::NoRoom,
                Looked::MayNot(claim) => claim,
            });
        }
        if self.segments.has_failed() {
            self.try_out().await?;
        }
        let (claim, beginning) = self.database.write(move |db| claims::claim(db, &who, new)).await?;
        if let (Claim::Started(run, _), Some(beginning)) = (&claim, beginning) {
            self.segments.start(run.prompt, beginning);
        }
        Ok(claim)
    }

    /// After a failure nobody starts what cannot be kept.
    async fn try_out(&self) -> Result<(), StorageError> {
        let segments = self.segments.clone();
        let probe = tokio::task::spawn_blocking(move || segments.try_out()).await;
        let probe = probe.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        self.sync(probe.map_err(|error| journal_failed(&error))?).await
    }

    async fn sync(&self, record: u64) -> Result<(), StorageError> {
        let Some(syncer) = &self.syncer else { return Ok(()) };
        syncer.sync(record).await.map_err(|error| journal_failed(&error))
    }

    /// The history did not take a prompt's end. Readers are told another one in its place, and that one waits
    /// to be folded; meanwhile the journal has it, if it can.
    async fn keep_unfinished(&self, who: Principal, prompt: PromptId, last: &Batch) {
        let told = Step::Ended(Box::new(Ended::interrupted(EndCause::Journal)));
        let told = last.first().map(|untaken| Event { step: told, ..untaken.clone() });
        let concluded = self.segments.conclude(prompt, told.into_iter().collect());
        self.unfinished.add(who, prompt);
        if let Some(Appended { record, unneeded }) = concluded {
            remove_beside(unneeded);
            let _ = self.sync(record).await;
        }
    }

    fn forget_running(&self, prompt: PromptId) {
        remove_beside(self.segments.finish(prompt));
    }
}

/// A prompt whose end waits to be folded has ended for everybody.
fn show_ended(prompt: &mut Prompt, unfinished: &HashSet<PromptId>) {
    if prompt.status == PromptStatus::InFlight && unfinished.contains(&prompt.id) {
        prompt.status = PromptStatus::Error;
    }
}

/// And nothing runs in its session.
fn show_free(session: &mut Session, unfinished: &HashSet<PromptId>) {
    session.running = session.running.filter(|prompt| !unfinished.contains(prompt));
}

/// Deleting takes its time, and nobody waits for it.
fn remove_beside(unneeded: Vec<PathBuf>) {
    if !unneeded.is_empty() {
        tokio::task::spawn_blocking(move || unneeded.iter().for_each(|path| segments::remove(path)));
    }
}

fn journal_failed(error: &io::Error) -> StorageError {
    StorageError::other(format!("the journal cannot be written: {error}"))
}

/// Whether a batch comes right behind a log.
fn continues(log: &[Batch], batch: &Batch) -> bool {
    let next = log.last().and_then(|batch| batch.last()).map_or(0, |last| last.position + 1);
    batch.first().is_some_and(|first| first.position == next)
}

fn no_continuation(prompt: PromptId) -> StorageError {
    StorageError::other(format!("prompt {prompt} is not running, or its log has gone on elsewhere"))
}
