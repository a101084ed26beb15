//! Store backends for tests: in memory, and a folder that outlives the server and can crash.

use std::future::pending;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use domain::{
    Batch, Claim, EndedSession, Exchange, History, Journal, NewPrompt, Principal, Prompt, PromptFilter,
    PromptId, RetentionProgress, Run, Session, SessionId, Sessions, StorageError, Timestamp, Turn,
};
use storage::{Durability, DurableStore, DurableStoreSettings, JournalLimits};
use tempfile::TempDir;

use crate::harness::StorePorts;

/// Opens and closes a store for one server after another.
#[async_trait]
pub(crate) trait StoreBackend {
    /// Opens the store, as a server does at its start.
    fn open(&self, now: Timestamp) -> StorePorts;

    /// Whether stored data outlives the server.
    fn is_durable(&self) -> bool;

    /// Waits until a stopped server has released the store.
    async fn close(&self);

    /// Takes the store away from a running server, as if its process were killed at this moment.
    async fn crash(&self);
}

/// A store in memory.
pub(crate) struct InMemoryBackend;

#[async_trait]
impl StoreBackend for InMemoryBackend {
    fn open(&self, _: Timestamp) -> StorePorts {
        StorePorts::memory()
    }

    fn is_durable(&self) -> bool {
        false
    }

    async fn close(&self) {}

    async fn crash(&self) {}
}

/// A store in a folder of its own. Segments are tiny, so that even short sequences fill, copy and delete
/// them.
pub(crate) struct OnDiskBackend {
    folder: TempDir,
    open_store: Mutex<Option<Arc<CrashableStore>>>,
}

impl OnDiskBackend {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().expect("a folder"), open_store: Mutex::default() }
    }
}

#[async_trait]
impl StoreBackend for OnDiskBackend {
    fn open(&self, now: Timestamp) -> StorePorts {
        let settings = DurableStoreSettings {
            folder: self.folder.path().to_owned(),
            durability: Durability::Process,
            journal: JournalLimits { segment_bytes: 500, journal_bytes: 2_000 },
            cache_bytes: 10_000,
        };
        let durable = DurableStore::open(&settings, now).expect("a sound folder opens");
        let open_store = Arc::new(CrashableStore { durable: Mutex::new(Some(Arc::new(durable))) });
        *self.open_store.lock().expect("sound") = Some(open_store.clone());
        StorePorts::of(open_store)
    }

    fn is_durable(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.crash().await;
    }

    async fn crash(&self) {
        let open_store = self.open_store.lock().expect("sound").take().expect("it is open");
        let durable = open_store.durable.lock().expect("sound").take().expect("it has not crashed");
        let last = Arc::downgrade(&durable);
        drop(durable);
        // Calls in progress complete, as system calls of a killed process do.
        while last.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// A store that can crash: calls after the crash never return.
struct CrashableStore {
    durable: Mutex<Option<Arc<DurableStore>>>,
}

impl CrashableStore {
    async fn durable(&self) -> Arc<DurableStore> {
        let durable = self.durable.lock().expect("sound").clone();
        match durable {
            Some(durable) => durable,
            None => pending().await,
        }
    }
}

#[async_trait]
impl Sessions for CrashableStore {
    async fn create(&self, principal: &Principal, session: Session) -> Result<(), StorageError> {
        self.durable().await.create(principal, session).await
    }

    async fn find(&self, principal: &Principal, id: SessionId) -> Result<Option<Session>, StorageError> {
        self.durable().await.find(principal, id).await
    }

    async fn touch(
        &self,
        principal: &Principal,
        id: SessionId,
        at: Timestamp,
        alive_since: Timestamp,
    ) -> Result<(), StorageError> {
        self.durable().await.touch(principal, id, at, alive_since).await
    }

    async fn end(&self, principal: &Principal, id: SessionId) -> Result<Option<EndedSession>, StorageError> {
        self.durable().await.end(principal, id).await
    }

    async fn alive(&self, alive_since: Timestamp) -> Result<u64, StorageError> {
        self.durable().await.alive(alive_since).await
    }
}

#[async_trait]
impl Journal for CrashableStore {
    async fn claim(&self, principal: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        self.durable().await.claim(principal, new).await
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        self.durable().await.append(run, batch).await
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        self.durable().await.finish(run, last).await
    }

    async fn write_unrecorded_ends(&self) -> Result<(), StorageError> {
        self.durable().await.write_unrecorded_ends().await
    }

    async fn read(&self, principal: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        self.durable().await.read(principal, id).await
    }
}

#[async_trait]
impl History for CrashableStore {
    async fn prompt(&self, principal: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError> {
        self.durable().await.prompt(principal, id).await
    }

    async fn thread(
        &self,
        principal: &Principal,
        last: PromptId,
        limit: usize,
    ) -> Result<Vec<Turn>, StorageError> {
        self.durable().await.thread(principal, last, limit).await
    }

    async fn conversation(
        &self,
        principal: &Principal,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Exchange>, StorageError> {
        self.durable().await.conversation(principal, session, limit).await
    }

    async fn sessions(
        &self,
        principal: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StorageError> {
        self.durable().await.sessions(principal, before, limit).await
    }

    async fn prompts(
        &self,
        principal: &Principal,
        filter: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, StorageError> {
        self.durable().await.prompts(principal, filter, limit).await
    }

    async fn delete_session(&self, principal: &Principal, id: SessionId) -> Result<bool, StorageError> {
        self.durable().await.delete_session(principal, id).await
    }

    async fn delete_older_than(&self, time: Timestamp) -> Result<RetentionProgress, StorageError> {
        self.durable().await.delete_older_than(time).await
    }
}
