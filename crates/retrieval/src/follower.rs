//! Keeps an index up to its catalog: whatever is filed, by whichever process, is searchable soon after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Catalog, CatalogChanges, Index, IndexSync, StorageError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time;

/// How often the catalog is asked when nobody says that something was filed.
const PERIOD: Duration = Duration::from_millis(250);

/// How long is waited at most before something that failed is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// So many failures in a row are told to whoever waits; fewer may be a hiccup.
const TRIES: u32 = 3;

/// How many chunks are taken in at once, about: one revision is never split.
const CHUNKS_AT_ONCE: usize = 4096;

/// A task that keeps an index up to its catalog. It ends when this is dropped or stopped.
pub struct Follower {
    asks: Arc<Asks>,
    reached: watch::Receiver<Reached>,
    task: JoinHandle<()>,
}

/// How often somebody asked for a look, and who waits to be asked.
#[derive(Default)]
struct Asks {
    count: AtomicU64,
    told: Notify,
}

/// How far the index is.
struct Reached {
    revision: u64,
    /// Whatever was filed before this ask is in it.
    ask: u64,
    failed: Option<Failed>,
}

/// It cannot get further.
struct Failed {
    /// Whoever asked until then is told.
    ask: u64,
    error: StorageError,
}

impl Reached {
    fn failure(&self, ask: u64) -> Option<&StorageError> {
        self.failed.as_ref().filter(|failed| failed.ask >= ask).map(|failed| &failed.error)
    }
}

impl Follower {
    /// Begins to follow, with vectors of a model.
    pub fn start(catalog: Arc<dyn Catalog>, index: Arc<dyn Index>, model: impl Into<String>) -> Self {
        let asks = Arc::new(Asks::default());
        let (reach, reached) = watch::channel(Reached { revision: index.revision(), ask: 0, failed: None });
        let following = Following { catalog, index, model: model.into(), asks: Arc::clone(&asks), reach };
        let task = tokio::spawn(following.run());
        Self { asks, reached, task }
    }

    /// Waits until all that was filed before this call is searchable. Fails if it keeps failing, and the
    /// follower goes on trying.
    pub async fn caught_up(&self) -> Result<(), StorageError> {
        let ask = self.ask();
        self.reached(ask, |reached| reached.ask >= ask).await
    }

    /// Waits until a revision is searchable, and fails likewise.
    pub async fn until(&self, revision: u64) -> Result<(), StorageError> {
        self.reached(self.ask(), |reached| reached.revision >= revision).await
    }

    /// Ends it, and waits until it has ended. Whoever waits for a revision is told.
    pub async fn stop(&self) {
        self.task.abort();
        // Nothing is enough, so this waits until nobody is left to tell more.
        let _ = self.reached.clone().wait_for(|_| false).await;
    }

    fn ask(&self) -> u64 {
        let ask = self.asks.count.fetch_add(1, Ordering::SeqCst) + 1;
        self.asks.told.notify_one();
        ask
    }

    async fn reached(&self, ask: u64, enough: impl Fn(&Reached) -> bool) -> Result<(), StorageError> {
        let mut reached = self.reached.clone();
        let waited = reached.wait_for(|reached| enough(reached) || reached.failure(ask).is_some()).await;
        let ended = |_| {
            StorageError::other("the index is no longer kept up to date: the server is stopping".to_owned())
        };
        let reached = waited.map_err(ended)?;
        match reached.failure(ask) {
            Some(error) if !enough(&reached) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl IndexSync for Follower {
    async fn wait_until_searchable(&self) -> Result<(), StorageError> {
        self.caught_up().await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Following {
    catalog: Arc<dyn Catalog>,
    index: Arc<dyn Index>,
    model: String,
    asks: Arc<Asks>,
    reach: watch::Sender<Reached>,
}

impl Following {
    async fn run(self) {
        let mut wait = PERIOD;
        let mut failures = 0;
        loop {
            let ask = self.asks.count.load(Ordering::SeqCst);
            match self.catch_up(ask).await {
                Ok(()) => {
                    (wait, failures) = (PERIOD, 0);
                    // Whether somebody asked or not, it is time for the next look.
                    let _ = time::timeout(wait, self.asks.told.notified()).await;
                }
                Err(reason) => {
                    wait = (wait * 2).min(LONGEST_WAIT);
                    failures += 1;
                    tracing::warn!(seconds = wait.as_secs_f32(), "the index is behind its catalog: {reason}");
                    if failures >= TRIES {
                        self.tell_failed(ask, &reason.to_string());
                    }
                    time::sleep(wait).await;
                }
            }
        }
    }

    /// Tells whoever asked until then; those who ask later have tries of their own.
    fn tell_failed(&self, ask: u64, reason: &str) {
        let error = StorageError::other(format!("the index cannot take in what was filed: {reason}"));
        self.reach.send_modify(|reached| reached.failed = Some(Failed { ask, error }));
    }

    /// Takes in all that is new: whatever was filed before this ask.
    async fn catch_up(&self, ask: u64) -> Result<(), StorageError> {
        loop {
            let from = self.index.revision();
            let changes = self.catalog.changes_since(from, &self.model, CHUNKS_AT_ONCE).await?;
            let more = changes.more;
            self.take_in(changes).await?;
            let revision = self.index.revision();
            if !more {
                self.reach.send_replace(Reached { revision, ask, failed: None });
                return Ok(());
            }
            if revision == from {
                return Err(StorageError::other(format!(
                    "it stays at revision {from}, though there are more"
                )));
            }
            self.reach.send_modify(|reached| reached.revision = revision);
        }
    }

    async fn take_in(&self, changes: CatalogChanges) -> Result<(), StorageError> {
        let (from, revision) = (self.index.revision(), changes.revision);
        if revision == from {
            return Ok(());
        }
        if revision < from {
            tracing::warn!(from, "the index has followed another catalog and is made anew");
        }
        let (added, removed) = (changes.added.len(), changes.removed.len());
        self.index.apply(changes).await?;
        tracing::debug!(revision, added, removed, "the index took in changes");
        Ok(())
    }
}
