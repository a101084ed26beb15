//! Storage on disk, for one process: running logs in segment files, everything else in `history.db`. What a
//! reader can see survives the process; at the level `power` it survives the machine.
//!
//! Each file has one writer. The history takes sessions, claims and ends; nothing slow shares a file with
//! the appending of tokens.

mod cache;
mod codec;
mod database;
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

use async_trait::async_trait;
use domain::{
    Batch, Claim, Ending, History, Journal, NewPrompt, Principal, Prompt, PromptId, Run, Session, SessionId,
    Sessions, StorageError, Timestamp, Turn, Which,
};

use cache::Cache;
use database::Database;
pub use segments::JournalLimits;
use segments::Segments;
use sync::Syncer;
use unfinished::Unfinished;

/// Storage on disk.
pub struct Durable {
    database: Database,
    segments: Segments,
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
        self.segments.check().map_err(|error| journal_failed(&error))?;
        let who = who.clone();
        let claim = self.database.write(move |db| prompts::claim(db, &who, new)).await?;
        if let prompts::Claimed::Started { run, beginning, .. } = &claim {
            self.segments.start(run.prompt, beginning.clone());
        }
        Ok(claim.into())
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        let before = self.segments.append(run.prompt, |log| codec::encode(&batch, log));
        let before = before.map_err(|error| journal_failed(&error))?;
        let before = before.ok_or_else(|| not_running(run.prompt))?;
        if let Some(syncer) = &self.syncer
            && let Err(error) = syncer.sync(&self.segments).await
        {
            self.segments.retract(run.prompt, before);
            return Err(journal_failed(&error));
        }
        Ok(())
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        let mut log = self.segments.log(run.prompt).ok_or_else(|| not_running(run.prompt))?;
        let claimed_and_appended = log.len();
        codec::encode(&last, &mut log);
        let name = (run.who.clone(), run.prompt);
        let folding = log.clone();
        let folded = self.database.write(move |db| prompts::fold(db, &name.0, name.1, &folding)).await;
        if let Err(error) = folded {
            log.truncate(claimed_and_appended);
            self.unfinished.add(run, log, &last);
            return Err(error);
        }
        self.forget_running(run.prompt);
        Ok(())
    }

    async fn mend(&self) -> Result<(), StorageError> {
        for (who, prompt, log) in self.unfinished.all() {
            self.database.write(move |db| prompts::fold(db, &who, prompt, &log)).await?;
            self.forget_running(prompt);
            self.unfinished.remove(prompt);
        }
        Ok(())
    }

    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        if let Some(log) = self.cache.get(who, id) {
            return Ok(Some(log));
        }
        if let Some(log) = self.unfinished.log(who, id) {
            return codec::decode(&log).map(Some);
        }
        let name = (who.clone(), id);
        let Some((format, body)) = self.database.read(move |db| prompts::log(db, &name.0, name.1)).await?
        else {
            return Ok(None);
        };
        if format > codec::FORMAT {
            return Err(StorageError(format!(
                "the log of prompt {id} was written by a newer release (format {format})"
            )));
        }
        let log = codec::decode(&body)?;
        self.cache.put(who, id, &log, body.len());
        Ok(Some(log))
    }
}

#[async_trait]
impl History for Durable {
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError> {
        let name = (who.clone(), id);
        let mut prompt = self.database.read(move |db| prompts::find(db, &name.0, name.1)).await?;
        if let Some(prompt) = &mut prompt
            && self.unfinished.log(who, id).is_some()
        {
            prompt.status = domain::PromptStatus::Error;
        }
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
        let who = who.clone();
        self.database.read(move |db| prompts::newest(db, &who, which, limit)).await
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
    fn forget_running(&self, prompt: PromptId) {
        let unneeded = self.segments.finish(prompt);
        if !unneeded.is_empty() {
            // Deleting takes its time, and nobody waits for it.
            tokio::task::spawn_blocking(move || unneeded.iter().for_each(|path| segments::remove(path)));
        }
    }
}

fn journal_failed(error: &std::io::Error) -> StorageError {
    StorageError(format!("the journal cannot be written: {error}"))
}

fn not_running(prompt: PromptId) -> StorageError {
    StorageError(format!("prompt {prompt} is not running"))
}
