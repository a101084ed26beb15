//! The follower, between the real catalog and the real index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Candidate, Catalog, CatalogChanges, Failure, Index, IndexQuery, StorageError};
use retrieval::{EmbeddedIndex, Follower};
use storage::Knowledge;
use tokio::sync::Notify;
use tokio::time;

use crate::library::Library;
use crate::world::{MODEL, apply, chunk, found_by_words};

#[tokio::test]
async fn what_is_filed_is_searchable_once_the_follower_caught_up() {
    let world = World::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    world.library.put("cats.md", &["cats sleep", "cats eat"]).await;
    world.follower.caught_up().await.unwrap();
    assert_eq!(found_by_words(&world.index, "cats").await.len(), 2);

    world.library.put("cats.md", &["cats eat"]).await;
    world.follower.caught_up().await.unwrap();
    assert_eq!(found_by_words(&world.index, "cats").await.len(), 1);
}

#[tokio::test]
async fn a_revision_can_be_waited_for() {
    let world = World::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    world.library.put("cats.md", &["cats sleep"]).await;
    let revision = world.library.knowledge().changes_since(0, MODEL, 1).await.unwrap().revision;
    world.follower.until(revision).await.unwrap();
    assert_eq!(world.index.revision(), revision);
}

#[tokio::test]
async fn nobody_has_to_say_that_something_was_filed() {
    let library = Library::new(Knowledge::in_memory());
    let index = Arc::new(Watched { index: EmbeddedIndex::in_memory(MODEL).unwrap(), applied: Notify::new() });
    let _follower = Follower::start(library.catalog(), Arc::clone(&index) as Arc<dyn Index>, MODEL);
    library.put("cats.md", &["cats sleep"]).await;
    index.applied.notified().await;
    assert_eq!(found_by_words(&index.index, "cats").await.len(), 1);
}

#[tokio::test]
async fn an_index_that_followed_another_catalog_is_made_anew() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    for number in 0..9 {
        apply(&index, vec![], vec![chunk(number, "dogs")]).await;
    }
    let world = World::new(index);
    world.library.put("cats.md", &["cats sleep"]).await;
    world.follower.caught_up().await.unwrap();
    assert_eq!(found_by_words(&world.index, "dogs").await, []);
    assert_eq!(found_by_words(&world.index, "cats").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_waited_out() {
    let library = Library::new(Knowledge::in_memory());
    let index = Arc::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    let stubborn = Arc::new(Stubborn { index: Arc::clone(&index), refusals: AtomicU32::new(2) });
    let follower = Follower::start(library.catalog(), stubborn, MODEL);
    library.put("dogs.md", &["dogs sleep"]).await;
    follower.caught_up().await.unwrap();
    assert_eq!(found_by_words(&index, "dogs").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_an_index_that_keeps_failing_is_told_and_it_is_tried_again() {
    let library = Library::new(Knowledge::in_memory());
    let index = Arc::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    let stubborn = Arc::new(Stubborn { index: Arc::clone(&index), refusals: AtomicU32::new(u32::MAX) });
    let follower = Follower::start(library.catalog(), Arc::clone(&stubborn) as Arc<dyn Index>, MODEL);
    library.put("dogs.md", &["dogs sleep"]).await;
    let minutes = Duration::from_secs(600);
    for _ in 0..2 {
        let told = time::timeout(minutes, follower.caught_up()).await.expect("nobody waits for ever");
        assert!(told.unwrap_err().to_string().contains("no room"));
        let told = time::timeout(minutes, follower.until(1)).await.expect("nobody waits for ever");
        assert!(told.unwrap_err().to_string().contains("no room"));
    }

    stubborn.refusals.store(0, Ordering::SeqCst);
    follower.caught_up().await.unwrap();
    assert_eq!(found_by_words(&index, "dogs").await.len(), 1);
}

#[tokio::test]
async fn whoever_waits_for_a_follower_that_ends_is_told() {
    let world = World::new(EmbeddedIndex::in_memory(MODEL).unwrap());
    let (told, ()) = tokio::join!(world.follower.until(u64::MAX), world.follower.stop());
    assert!(told.unwrap_err().to_string().contains("stopping"));
    assert!(world.follower.caught_up().await.is_err());
}

struct World {
    library: Library,
    index: Arc<EmbeddedIndex>,
    follower: Follower,
}

impl World {
    fn new(index: EmbeddedIndex) -> Self {
        let library = Library::new(Knowledge::in_memory());
        let index = Arc::new(index);
        let follower = Follower::start(library.catalog(), Arc::clone(&index) as Arc<dyn Index>, MODEL);
        Self { library, index, follower }
    }
}

/// An index that tells when it took something in.
struct Watched {
    index: EmbeddedIndex,
    applied: Notify,
}

#[async_trait]
impl Index for Watched {
    fn is_empty(&self) -> bool {
        unreachable!("nobody searches it")
    }

    fn revision(&self) -> u64 {
        self.index.revision()
    }

    async fn apply(&self, changes: CatalogChanges) -> Result<(), StorageError> {
        self.index.apply(changes).await?;
        self.applied.notify_one();
        Ok(())
    }

    async fn search(&self, search: IndexQuery) -> Result<Vec<Candidate>, Failure> {
        self.index.search(search).await
    }
}

/// An index that refuses at first.
struct Stubborn {
    index: Arc<EmbeddedIndex>,
    refusals: AtomicU32,
}

#[async_trait]
impl Index for Stubborn {
    fn is_empty(&self) -> bool {
        unreachable!("nobody searches it")
    }

    fn revision(&self) -> u64 {
        self.index.revision()
    }

    async fn apply(&self, changes: CatalogChanges) -> Result<(), StorageError> {
        let left = self.refusals.load(Ordering::SeqCst);
        if left > 0 {
            self.refusals.store(left - 1, Ordering::SeqCst);
            return Err(StorageError::other("no room".to_owned()));
        }
        self.index.apply(changes).await
    }

    async fn search(&self, search: IndexQuery) -> Result<Vec<Candidate>, Failure> {
        self.index.search(search).await
    }
}
