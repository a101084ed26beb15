//! The follower between the real catalog and the real index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Candidate, CatalogChanges, Failure, Index, IndexQuery, IndexSync, StorageError, StorageErrorKind,
};
use retrieval::{EmbeddedIndex, IndexFollower};
use tokio::sync::Notify;
use tokio::time;

use crate::catalog::TestCatalog;
use crate::fixtures::{MODEL, apply, chunk, search_lexical};

#[tokio::test]
async fn a_stored_document_is_searchable_after_a_sync() {
    let world = World::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    world.catalog.put("cats.md", &["cats sleep", "cats eat"]).await;
    world.follower.wait_until_searchable().await.unwrap();
    assert_eq!(search_lexical(&world.index, "cats").await.len(), 2);

    world.catalog.put("cats.md", &["cats eat"]).await;
    world.follower.wait_until_searchable().await.unwrap();
    assert_eq!(search_lexical(&world.index, "cats").await.len(), 1);
}

#[tokio::test]
async fn the_follower_polls_the_catalog() {
    let catalog = TestCatalog::new();
    let index =
        Arc::new(NotifyingIndex { index: EmbeddedIndex::in_memory(MODEL).unwrap(), applied: Notify::new() });
    let _follower = IndexFollower::start(catalog.catalog(), Arc::clone(&index) as Arc<dyn Index>, MODEL);
    catalog.put("cats.md", &["cats sleep"]).await;
    index.applied.notified().await;
    assert_eq!(search_lexical(&index.index, "cats").await.len(), 1);
}

#[tokio::test]
async fn an_index_of_another_catalog_is_rebuilt() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    for number in 0..9 {
        apply(&index, vec![], vec![chunk(number, "dogs")]).await;
    }
    let world = World::new(index);
    world.catalog.put("cats.md", &["cats sleep"]).await;
    world.follower.wait_until_searchable().await.unwrap();
    assert_eq!(search_lexical(&world.index, "dogs").await, []);
    assert_eq!(search_lexical(&world.index, "cats").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried() {
    let catalog = TestCatalog::new();
    let index = Arc::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    let full = Arc::new(FullIndex { index: Arc::clone(&index), failures: AtomicU32::new(2) });
    let follower = IndexFollower::start(catalog.catalog(), full, MODEL);
    catalog.put("dogs.md", &["dogs sleep"]).await;
    follower.wait_until_searchable().await.unwrap();
    assert_eq!(search_lexical(&index, "dogs").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_get_the_error_of_a_failing_index_and_the_follower_keeps_retrying() {
    let catalog = TestCatalog::new();
    let index = Arc::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    let full = Arc::new(FullIndex { index: Arc::clone(&index), failures: AtomicU32::new(u32::MAX) });
    let follower = IndexFollower::start(catalog.catalog(), Arc::clone(&full) as Arc<dyn Index>, MODEL);
    catalog.put("dogs.md", &["dogs sleep"]).await;
    let minutes = Duration::from_secs(600);
    for _ in 0..4 {
        let synced = time::timeout(minutes, follower.wait_until_searchable()).await;
        let error = synced.expect("the wait ends").unwrap_err();
        assert!(error.to_string().contains("no room"), "{error}");
        assert_eq!(error.kind(), StorageErrorKind::Full);
    }

    full.failures.store(0, Ordering::SeqCst);
    follower.wait_until_searchable().await.unwrap();
    assert_eq!(search_lexical(&index, "dogs").await.len(), 1);
}

#[tokio::test]
async fn waiting_callers_get_an_error_when_the_follower_stops() {
    let world = World::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    let (synced, ()) = tokio::join!(world.follower.wait_until_searchable(), world.follower.stop());
    assert!(synced.unwrap_err().to_string().contains("stopping"));
    assert!(world.follower.wait_until_searchable().await.is_err());
}

struct World {
    catalog: TestCatalog,
    index: Arc<EmbeddedIndex>,
    follower: IndexFollower,
}

impl World {
    fn new(index: EmbeddedIndex) -> Self {
        let catalog = TestCatalog::new();
        let index = Arc::new(index);
        let follower = IndexFollower::start(catalog.catalog(), Arc::clone(&index) as Arc<dyn Index>, MODEL);
        Self { catalog, index, follower }
    }
}

/// An index that notifies after every applied revision.
struct NotifyingIndex {
    index: EmbeddedIndex,
    applied: Notify,
}

#[async_trait]
impl Index for NotifyingIndex {
    fn is_empty(&self) -> bool {
        unreachable!("the follower does not ask")
    }

    fn revision(&self) -> u64 {
        self.index.revision()
    }

    async fn apply(&self, changes: CatalogChanges) -> Result<(), StorageError> {
        self.index.apply(changes).await?;
        self.applied.notify_one();
        Ok(())
    }

    async fn search(&self, query: IndexQuery) -> Result<Vec<Candidate>, Failure> {
        self.index.search(query).await
    }
}

/// An index whose disk is full at first.
struct FullIndex {
    index: Arc<EmbeddedIndex>,
    failures: AtomicU32,
}

#[async_trait]
impl Index for FullIndex {
    fn is_empty(&self) -> bool {
        unreachable!("the follower does not ask")
    }

    fn revision(&self) -> u64 {
        self.index.revision()
    }

    async fn apply(&self, changes: CatalogChanges) -> Result<(), StorageError> {
        let left = self.failures.load(Ordering::SeqCst);
        if left > 0 {
            self.failures.store(left - 1, Ordering::SeqCst);
            return Err(StorageError::new(StorageErrorKind::Full, "no room"));
        }
        self.index.apply(changes).await
    }

    async fn search(&self, query: IndexQuery) -> Result<Vec<Candidate>, Failure> {
        self.index.search(query).await
    }
}
