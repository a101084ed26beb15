//! Whether texts can be embedded, asked at most every two seconds, however often the server is asked.

use std::sync::Arc;
use std::time::Duration;

use domain::{Embedder, Failure};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(2);

pub(crate) struct EmbeddingHealth {
    embedder: Arc<dyn Embedder>,
    last: Mutex<Option<(Instant, Result<(), Failure>)>>,
}

impl EmbeddingHealth {
    pub(crate) fn new(embedder: Arc<dyn Embedder>) -> Self {
        Self { embedder, last: Mutex::default() }
    }

    /// Whether the embedder would embed now, or why not; one look at a time.
    pub(crate) async fn look(&self) -> Result<(), Failure> {
        let mut last = self.last.lock().await;
        if let Some((_, health)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return health.clone();
        }
        let health = self.embedder.health().await;
        *last = Some((Instant::now(), health.clone()));
        health
    }
}
