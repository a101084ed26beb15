//! Documents that are being taken in. Each request has a place and a task of its own: a client who leaves stops
//! nothing, and the end of the server stops all of it. What is filed by then stays, whole documents only.

use std::sync::Arc;
use std::time::Duration;

use domain::{Ingest, IngestFailure, IngestedDocument, Principal, RawDocument, Rejection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Requests that take documents in at once. They share one embedder, so more would only hold more bodies.
const PLACES: usize = 4;

/// When asking again may help.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// One of the places, until it is dropped.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// Takes documents in.
pub(crate) struct Ingests {
    ingest: Arc<dyn Ingest>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Ingests {
    pub(crate) fn new(ingest: Arc<dyn Ingest>) -> Self {
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        Self { ingest, places: Arc::new(Semaphore::new(PLACES)), tasks, stopping }
    }

    /// Takes a place, or refuses.
    pub(crate) fn enter(&self) -> Result<Place, Rejection> {
        if self.tasks.is_closed() {
            return Err(Rejection::Stopping);
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map(|permit| Place { _permit: permit }).map_err(|_| Rejection::Overloaded {
            message: format!("{PLACES} requests are bringing documents: try again when one has ended"),
            retry_after: RETRY_AFTER,
        })
    }

    /// Takes documents in, to the end, whether somebody waits for it or not.
    pub(crate) async fn run(
        &self,
        place: Place,
        who: Principal,
        documents: Vec<RawDocument>,
    ) -> Result<Vec<Result<IngestedDocument, IngestFailure>>, Rejection> {
        let (ingest, stopping) = (Arc::clone(&self.ingest), self.stopping.clone());
        let task = self.tasks.spawn(async move {
            let _place = place;
            let ingested = stopping.run_until_cancelled(ingest.ingest(&who, documents)).await;
            ingested.unwrap_or(Err(Rejection::Stopping))
        });
        task.await
            .unwrap_or_else(|died| Err(Rejection::Internal(format!("taking documents in died: {died}"))))
    }

    /// Takes no more; what runs goes on.
    pub(crate) fn close(&self) {
        self.tasks.close();
    }

    /// Takes no more, and waits until what runs has ended by itself.
    pub(crate) async fn drain(&self) {
        self.close();
        self.tasks.wait().await;
    }

    /// Takes no more, stops what runs and waits until it has ended.
    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        self.drain().await;
    }
}
