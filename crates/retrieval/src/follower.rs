//! Copies the catalog into the index: every change, of whichever process, is searchable shortly after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Catalog, CatalogChanges, Index, IndexSync, StorageError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time;

/// Interval at which the catalog is polled when no sync is requested. Other processes write to the catalog
/// without notice.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Longest backoff between two attempts after failures.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Consecutive failures before waiting callers get the error; fewer may be transient.
const FAILURES_BEFORE_ERROR: u32 = 3;

/// Approximate number of chunks indexed in one step. A revision is never split, so a step may exceed it.
const CHUNKS_PER_STEP: usize = 4096;

/// A task that keeps an index in step with its catalog. Dropping or stopping it ends the task.
pub struct IndexFollower {
    requests: Arc<SyncRequests>,
    progress: watch::Receiver<SyncProgress>,
    task: JoinHandle<()>,
}

/// Numbers the requests to sync, and wakes the task for each.
#[derive(Default)]
struct SyncRequests {
    last: AtomicU64,
    wake: Notify,
}

/// What the task reports to waiting callers.
#[derive(Default)]
struct SyncProgress {
    /// The index contains everything that the catalog had when this request was made.
    completed: u64,
    failure: Option<SyncFailure>,
}

/// Repeated failure, reported to the requests up to `request`. Later requests get attempts of their own.
struct SyncFailure {
    request: u64,
    error: StorageError,
}

impl SyncProgress {
    fn failure_of(&self, request: u64) -> Option<&StorageError> {
        self.failure.as_ref().filter(|failure| failure.request >= request).map(|failure| &failure.error)
    }
}

impl IndexFollower {
    /// Starts to follow `catalog`, with the vectors that `model` made.
    pub fn start(catalog: Arc<dyn Catalog>, index: Arc<dyn Index>, model: impl Into<String>) -> Self {
        let requests = Arc::new(SyncRequests::default());
        let (report, progress) = watch::channel(SyncProgress::default());
        let sync_loop = SyncLoop { catalog, index, model: model.into(), requests: requests.clone(), report };
        Self { requests, progress, task: tokio::spawn(sync_loop.run()) }
    }

    /// Ends the task and waits until it has ended. Callers that wait for a sync get an error.
    pub async fn stop(&self) {
        self.task.abort();
        // The predicate never holds, so this returns when the task has dropped its sender.
        let _ = self.progress.clone().wait_for(|_| false).await;
    }
}

#[async_trait]
impl IndexSync for IndexFollower {
    async fn wait_until_searchable(&self) -> Result<(), StorageError> {
        let request = self.requests.last.fetch_add(1, Ordering::SeqCst) + 1;
        self.requests.wake.notify_one();
        let mut progress = self.progress.clone();
        let done =
            |progress: &SyncProgress| progress.completed >= request || progress.failure_of(request).is_some();
        let progress = progress.wait_for(done).await.map_err(|_| {
            StorageError::other("the index is no longer kept up to date: the server is stopping")
        })?;
        match progress.failure_of(request) {
            Some(error) if progress.completed < request => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl Drop for IndexFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind an [`IndexFollower`].
struct SyncLoop {
    catalog: Arc<dyn Catalog>,
    index: Arc<dyn Index>,
    model: String,
    requests: Arc<SyncRequests>,
    report: watch::Sender<SyncProgress>,
}

impl SyncLoop {
    async fn run(self) {
        let mut backoff = POLL_INTERVAL;
        let mut failures = 0;
        loop {
            let request = self.requests.last.load(Ordering::SeqCst);
            match self.sync().await {
                Ok(()) => {
                    (backoff, failures) = (POLL_INTERVAL, 0);
                    self.report.send_replace(SyncProgress { completed: request, failure: None });
                    // A request and a timeout both mean that it is time to sync again.
                    let _ = time::timeout(POLL_INTERVAL, self.requests.wake.notified()).await;
                }
                Err(error) => {
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                    failures += 1;
                    tracing::warn!(
                        retry_in_seconds = backoff.as_secs_f32(),
                        "the index cannot be updated from the catalog; retrying: {error}"
                    );
                    if failures >= FAILURES_BEFORE_ERROR {
                        self.report_failure(request, error);
                    }
                    time::sleep(backoff).await;
                }
            }
        }
    }

    fn report_failure(&self, request: u64, error: StorageError) {
        let message = format!("the index cannot be updated: {error}");
        let failure = SyncFailure { request, error: error.with_message(message) };
        self.report.send_modify(|progress| progress.failure = Some(failure));
    }

    /// Indexes all changes of the catalog since the index's revision.
    async fn sync(&self) -> Result<(), StorageError> {
        loop {
            let from = self.index.revision();
            let changes = self.catalog.changes_since(from, &self.model, CHUNKS_PER_STEP).await?;
            let more = changes.more;
            self.apply(changes).await?;
            if !more {
                return Ok(());
            }
            if self.index.revision() == from {
                return Err(StorageError::other(format!(
                    "the index stays at revision {from}, though the catalog has newer ones"
                )));
            }
        }
    }

    async fn apply(&self, changes: CatalogChanges) -> Result<(), StorageError> {
        let (from, revision) = (self.index.revision(), changes.revision);
        if revision == from {
            return Ok(());
        }
        if revision < from {
            tracing::warn!(from, "the index belongs to another catalog; rebuilding it");
        }
        let (added, removed) = (changes.added.len(), changes.removed.len());
        self.index.apply(changes).await?;
        tracing::debug!(revision, added, removed, "the index is updated");
        Ok(())
    }
}
