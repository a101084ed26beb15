//! How the parts are that a server can do without for a while: asked at most every two seconds, however often
//! the server is asked.

use std::sync::Arc;
use std::time::Duration;

use domain::{Embedder, Failure, FailureKind, Published, StorageError};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(2);

/// An index that is not up to its catalog within this time is behind it.
const CATCHING_UP: Duration = Duration::from_millis(250);

/// Whether texts can be embedded now, and whether all documents can be found now.
#[derive(Clone)]
pub(crate) struct Health {
    pub(crate) embedding: Result<(), Failure>,
    pub(crate) index: Result<(), Failure>,
}

pub(crate) struct Watch {
    embedder: Arc<dyn Embedder>,
    index: Arc<dyn Published>,
    last: Mutex<Option<(Instant, Health)>>,
}

impl Watch {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, index: Arc<dyn Published>) -> Self {
        Self { embedder, index, last: Mutex::default() }
    }

    /// How they are; one look at a time.
    pub(crate) async fn look(&self) -> Health {
        let mut last = self.last.lock().await;
        if let Some((_, health)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return health.clone();
        }
        let (embedding, index) = tokio::join!(self.embedder.health(), self.index());
        let health = Health { embedding, index };
        *last = Some((Instant::now(), health.clone()));
        health
    }

    async fn index(&self) -> Result<(), Failure> {
        let behind = |message| Failure::new(FailureKind::Retrieval, message);
        match timeout(CATCHING_UP, self.index.published()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(StorageError(reason))) => Err(behind(reason)),
            Err(_) => Err(behind("the index is still taking in documents: not all are found yet".to_owned())),
        }
    }
}
