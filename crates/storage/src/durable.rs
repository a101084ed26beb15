//! Storage on disk, for one process: running logs in segment files, everything else in `history.db`. What a
//! reader can see survives the process; at the level `power` it survives the machine.
//!
//! Each file has one writer. The history takes sessions, claims and ends; nothing slow shares a file with
//! the appending of tokens.

mod cache;
mod checkpoint;
mod claims;
mod codec;
mod database;
mod ends;
mod forget;
mod migrations;
mod open;
mod prompts;
mod record;
mod segments;
mod sessions;
mod sync;
mod unfinished;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Batch, Cause, Claim, Ended, Ending, Event, History, Journal, NewPrompt, Principal, Prompt, PromptId,
    PromptStatus, Run, Session, SessionId, Sessions, Step, StorageError, Timestamp, Turn, Which,
};

use cache::Cache;
use claims::Looked;
use database::Database;
pub use segments::JournalLimits;
use segments::Segments;
use sync::Syncer;
use unfinished::Unfinished;

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

/// What a visible event survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process.
    Process,
    /// The end of the machine's power, too.
    Power,
}

#[async_trait]
impl Sessions for Durable {
    async fn create(&self, who: &Principal, session: Session) -> Result<(), StorageError> {
        let who = who.clone();
        self.database.write(move |db| sessions::create(db, &who, &session)).await
    }

    async fn find(&self, who: &Principal, id: SessionId) -> Result<Option<Session>, StorageError> {
        let who = who.clone();
        self.database.read(move |db| sessions::find(db, &who, id)).await
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

    async fn end(&self, who: &Principal, id: SessionId) -> Result<Option<Ending>, StorageError> {
        let who = who.clone();
        self.database.write(move |db| sessions::end(db, &who, id)).await
    }
}

#[async_trait]
impl Journal for Durable {
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        self.mend().await?;
        let who = who.clone();
        if !new.room {
            // Without room nothing starts, so nothing is written and nobody's lock is waited for.
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

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        let position = batch.first().map_or(0, |first| first.position);
        let appended = self.segments.append(run.prompt, batch).map_err(|error| journal_failed(&error))?;
        let appended = appended.ok_or_else(|| no_continuation(run.prompt))?;
        remove_beside(appended.unneeded);
        self.sync(appended.record).await.inspect_err(|_| self.segments.retract(run.prompt, position))
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        let Run { prompt, who } = run;
        let mut log = self.segments.log(prompt).ok_or_else(|| no_continuation(prompt))?;
        log.push(last.clone());
        let owner = who.clone();
        let folded = self.database.write(move |db| ends::fold(db, &owner, prompt, &log)).await;
        match folded {
            Ok(()) => self.forget_running(prompt),
            Err(_) => self.keep_unfinished(who, prompt, &last),
        }
        folded
    }

    async fn mend(&self) -> Result<(), StorageError> {
        for (who, prompt) in self.unfinished.all() {
            if let Some(log) = self.segments.log(prompt) {
                self.database.write(move |db| ends::fold(db, &who, prompt, &log)).await?;
            }
            self.unfinished.remove(prompt);
            self.forget_running(prompt);
        }
        Ok(())
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
        let log = stored.decode().map_err(|StorageError(why)| StorageError(format!("prompt {id}: {why}")))?;
        self.cache.put(who, id, &log, stored.body.len(), removals);
        Ok(Some(log))
    }
}

#[async_trait]
impl History for Durable {
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError> {
        let name = (who.clone(), id);
        let mut prompt = self.database.read(move |db| prompts::find(db, &name.0, name.1)).await?;
        prompt.iter_mut().for_each(|prompt| self.show_ended(who, prompt));
        Ok(prompt)
    }

    async fn thread(&self, who: &Principal, last: PromptId, limit: usize) -> Result<Vec<Turn>, StorageError> {
        let who = who.clone();
        self.database.read(move |db| prompts::thread(db, &who, last, limit)).await
    }

    async fn sessions(
        &self,
        who: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StorageError> {
        let who = who.clone();
        self.database.read(move |db| sessions::page(db, &who, before, limit)).await
    }

    async fn prompts(
        &self,
        who: &Principal,
        which: Which,
        limit: usize,
    ) -> Result<Vec<Prompt>, StorageError> {
        let owner = who.clone();
        let mut prompts = self.database.read(move |db| prompts::newest(db, &owner, which, limit)).await?;
        prompts.iter_mut().for_each(|prompt| self.show_ended(who, prompt));
        prompts.retain(|prompt| which.status.is_none_or(|status| prompt.status == status));
        Ok(prompts)
    }

    async fn delete_session(&self, who: &Principal, id: SessionId) -> Result<bool, StorageError> {
        self.mend().await?;
        let who = who.clone();
        let Some(prompts) = self.database.write(move |db| forget::session(db, &who, id)).await? else {
            return Ok(false);
        };
        prompts.into_iter().for_each(|prompt| self.cache.remove(prompt));
        Ok(true)
    }

    async fn forget_before(&self, time: Timestamp) -> Result<bool, StorageError> {
        let forgotten = self.database.write(move |db| forget::slice(db, time)).await?;
        forgotten.prompts.into_iter().for_each(|prompt| self.cache.remove(prompt));
        Ok(forgotten.more)
    }
}

impl Durable {
    /// After a failure nobody starts what cannot be kept.
    async fn try_out(&self) -> Result<(), StorageError> {
        let probe = self.segments.try_out().map_err(|error| journal_failed(&error))?;
        self.sync(probe).await
    }

    async fn sync(&self, record: u64) -> Result<(), StorageError> {
        let Some(syncer) = &self.syncer else { return Ok(()) };
        syncer.sync(record).await.map_err(|error| journal_failed(&error))
    }

    /// The history did not take a prompt's end. Readers are told another one in its place, and that one waits
    /// to be folded; meanwhile the journal has it, if it can.
    fn keep_unfinished(&self, who: Principal, prompt: PromptId, last: &Batch) {
        let told = Step::Ended(Box::new(Ended::interrupted(Cause::Journal)));
        let told = last.first().map(|untaken| Event { step: told, ..untaken.clone() });
        remove_beside(self.segments.conclude(prompt, told.into_iter().collect()));
        self.unfinished.add(who, prompt);
    }

    fn forget_running(&self, prompt: PromptId) {
        remove_beside(self.segments.finish(prompt));
    }

    /// A prompt whose end waits to be folded has ended for everybody.
    fn show_ended(&self, who: &Principal, prompt: &mut Prompt) {
        if prompt.status == PromptStatus::InFlight && self.unfinished.has(who, prompt.id) {
            prompt.status = PromptStatus::Error;
        }
    }
}

/// Deleting takes its time, and nobody waits for it.
fn remove_beside(unneeded: Vec<PathBuf>) {
    if !unneeded.is_empty() {
        tokio::task::spawn_blocking(move || unneeded.iter().for_each(|path| segments::remove(path)));
    }
}

fn journal_failed(error: &std::io::Error) -> StorageError {
    StorageError(format!("the journal cannot be written: {error}"))
}

fn no_continuation(prompt: PromptId) -> StorageError {
    StorageError(format!("prompt {prompt} is not running, or its log has gone on elsewhere"))
}
