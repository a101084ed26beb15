//! Ingest requests: a bounded number at once, each in its own task. A client that disconnects does not stop
//! its ingest; the end of the server does. Documents stored by then stay, whole documents only.

use std::sync::Arc;
use std::time::Duration;

use domain::{Ingest, IngestFailure, IngestedDocument, Principal, RawDocument, Rejection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Ingest requests at once. They share one embedder, so more would only hold more bodies in memory.
const MAX_CONCURRENT: usize = 4;

/// When a refused client should try again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The right to run one ingest request, released when dropped.
pub(crate) struct IngestPermit {
    _permit: OwnedSemaphorePermit,
}

/// Runs ingest requests.
pub(crate) struct IngestTasks {
    ingest: Arc<dyn Ingest>,
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl IngestTasks {
    pub(crate) fn new(ingest: Arc<dyn Ingest>) -> Self {
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        Self { ingest, permits: Arc::new(Semaphore::new(MAX_CONCURRENT)), tasks, stopping }
    }

    /// Acquires a permit. Fails while all are taken and once the server is stopping.
    pub(crate) fn try_acquire(&self) -> Result<IngestPermit, Rejection> {
        if self.tasks.is_closed() {
            return Err(Rejection::Stopping);
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        permit.map(|permit| IngestPermit { _permit: permit }).map_err(|_| Rejection::Overloaded {
            message: format!("{MAX_CONCURRENT} ingest requests are running: try again when one has ended"),
            retry_after: RETRY_AFTER,
        })
    }

    /// Ingests documents to the end, even if the caller stops waiting.
    pub(crate) async fn run(
        &self,
        permit: IngestPermit,
        who: Principal,
        documents: Vec<RawDocument>,
    ) -> Result<Vec<Result<IngestedDocument, IngestFailure>>, Rejection> {
        let (ingest, stopping) = (Arc::clone(&self.ingest), self.stopping.clone());
        let task = self.tasks.spawn(async move {
            let _permit = permit;
            let ingested = stopping.run_until_cancelled(ingest.ingest(&who, documents)).await;
            ingested.unwrap_or(Err(Rejection::Stopping))
        });
        task.await
            .unwrap_or_else(|panic| Err(Rejection::Internal(format!("an ingest task panicked: {panic}"))))
    }

    /// Refuses new requests; running ones continue.
    pub(crate) fn close(&self) {
        self.tasks.close();
    }

    /// Refuses new requests and waits until the running ones have ended.
    pub(crate) async fn drain(&self) {
        self.close();
        self.tasks.wait().await;
    }

    /// Refuses new requests, cancels the running ones and waits until they have ended.
    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        self.drain().await;
    }
}
