//! Where the store of a test is: in memory, or in a folder that outlives a server.

use std::future::pending;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{
    Batch, Claim, EndedSession, Exchange, History, Journal, NewPrompt, Principal, Prompt, PromptFilter,
    PromptId, RetentionProgress, Run, Session, SessionId, Sessions, StorageError, Timestamp, Turn,
};
use storage::{Durability, DurableStore, DurableStoreSettings, JournalLimits};
use tempfile::TempDir;

use crate::world::Store;

/// A place for a store.
#[async_trait]
pub(crate) trait Place {
    /// Opens the store, as a server does when it starts.
    fn open(&self, now: Timestamp) -> Store;

    /// Whether what is stored outlives the server.
    fn survives(&self) -> bool;

    /// Waits until a server that was stopped has let go of the store.
    async fn close(&self);

    /// Takes the store away from a server that is still running, as if it were killed at this moment.
    async fn kill(&self);
}

/// The process's memory.
pub(crate) struct InMemory;

#[async_trait]
impl Place for InMemory {
    fn open(&self, _: Timestamp) -> Store {
        Store::memory()
    }

    fn survives(&self) -> bool {
        false
    }

    async fn close(&self) {}

    async fn kill(&self) {}
}

/// A folder of its own. Segments are tiny, so that even short sequences fill, copy and delete them.
pub(crate) struct OnDisk {
    folder: TempDir,
    mortal: Mutex<Option<Arc<Mortal>>>,
}

impl OnDisk {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().expect("a folder"), mortal: Mutex::default() }
    }
}

#[async_trait]
impl Place for OnDisk {
    fn open(&self, now: Timestamp) -> Store {
        let settings = DurableStoreSettings {
            folder: self.folder.path().to_owned(),
            durability: Durability::Process,
            journal: JournalLimits { segment_bytes: 500, journal_bytes: 2_000 },
            cache_bytes: 10_000,
        };
        let durable = DurableStore::open(&settings, now).expect("a sound folder opens");
        let mortal = Arc::new(Mortal { durable: Mutex::new(Some(Arc::new(durable))) });
        *self.mortal.lock().expect("sound") = Some(mortal.clone());
        Store::of(mortal)
    }

    fn survives(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.kill().await;
    }

    async fn kill(&self) {
        let mortal = self.mortal.lock().expect("sound").take().expect("it is open");
        let durable = mortal.durable.lock().expect("sound").take().expect("it lives");
        let last = Arc::downgrade(&durable);
        drop(durable);
        // Calls that are under way have their end, as system calls do.
        while last.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// A store that can die: from then on no call of it returns.
struct Mortal {
    durable: Mutex<Option<Arc<DurableStore>>>,
}

impl Mortal {
    async fn durable(&self) -> Arc<DurableStore> {
        let durable = self.durable.lock().expect("sound").clone();
        match durable {
            Some(durable) => durable,
            None => pending().await,
        }
    }
}

#[async_trait]
impl Sessions for Mortal {
    async fn create(&self, who: &Principal, session: Session) -> Result<(), StorageError> {
        self.durable().await.create(who, session).await
    }

    async fn find(&self, who: &Principal, id: SessionId) -> Result<Option<Session>, StorageError> {
        self.durable().await.find(who, id).await
    }

    async fn touch(
        &self,
        who: &Principal,
        id: SessionId,
        at: Timestamp,
        alive_since: Timestamp,
    ) -> Result<(), StorageError> {
        self.durable().await.touch(who, id, at, alive_since).await
    }

    async fn end(&self, who: &Principal, id: SessionId) -> Result<Option<EndedSession>, StorageError> {
        self.durable().await.end(who, id).await
    }

    async fn alive(&self, alive_since: Timestamp) -> Result<u64, StorageError> {
        self.durable().await.alive(alive_since).await
    }
}

#[async_trait]
impl Journal for Mortal {
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        self.durable().await.claim(who, new).await
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        self.durable().await.append(run, batch).await
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        self.durable().await.finish(run, last).await
    }

    async fn mend(&self) -> Result<(), StorageError> {
        self.durable().await.mend().await
    }

    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        self.durable().await.read(who, id).await
    }
}

#[async_trait]
impl History for Mortal {
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError> {
        self.durable().await.prompt(who, id).await
    }

    async fn thread(&self, who: &Principal, last: PromptId, limit: usize) -> Result<Vec<Turn>, StorageError> {
        self.durable().await.thread(who, last, limit).await
    }

    async fn conversation(
        &self,
        who: &Principal,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Exchange>, StorageError> {
        self.durable().await.conversation(who, session, limit).await
    }

    async fn sessions(
        &self,
        who: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StorageError> {
        self.durable().await.sessions(who, before, limit).await
    }

    async fn prompts(
        &self,
        who: &Principal,
        which: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, StorageError> {
        self.durable().await.prompts(who, which, limit).await
    }

    async fn delete_session(&self, who: &Principal, id: SessionId) -> Result<bool, StorageError> {
        self.durable().await.delete_session(who, id).await
    }

    async fn delete_older_than(&self, time: Timestamp) -> Result<RetentionProgress, StorageError> {
        self.durable().await.delete_older_than(time).await
    }
}
