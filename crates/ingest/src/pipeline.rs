//! The way of documents into the knowledge base: read, parse, cut, file, embed, publish. Chunks are filed in short
//! transactions and found by their words at once; vectors follow. The catalog is the queue between filing and
//! embedding, so nothing is lost when a process dies and no memory is held for what waits.

mod digest;
mod documents;
mod embed;
mod file;
mod prepare;
mod read;
mod report;

use std::sync::Arc;

use domain::{Catalog, Clock, Embedder, Failure, IndexSync};
use tokio::sync::{Semaphore, watch};

use crate::chunk::{Budget, Strategy};
use embed::Wanted;
pub use report::{Progress, Report, Stopped, Tell};

/// What documents go through, and where they end.
pub struct Ports {
    /// Where they are filed.
    pub catalog: Arc<dyn Catalog>,
    /// What gives chunks their vectors, and counts their tokens.
    pub embedder: Arc<dyn Embedder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Who knows when they can be found; none where nobody searches in this process.
    pub published: Option<Arc<dyn IndexSync>>,
}

/// How documents are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How they are cut.
    pub strategy: Strategy,
    /// Calls with documents that may run at a time; more are refused.
    pub calls: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { strategy: Strategy::Structure(Budget::default()), calls: 8 }
    }
}

/// Takes documents in: those of a call ([`domain::Ingest`]) and those of a source ([`Pipeline::read`]).
pub struct Pipeline {
    ports: Ports,
    strategy: Strategy,
    calls: Semaphore,
}

impl Pipeline {
    /// A pipeline between these ports.
    pub fn new(ports: Ports, settings: Settings) -> Self {
        Self { ports, strategy: settings.strategy, calls: Semaphore::new(settings.calls) }
    }

    /// Gives all chunks, of every tenant, that lack a vector of the embedder's model one; tells how many got one.
    pub async fn embed_missing(&self, tell: Tell<'_>) -> Result<usize, Failure> {
        let (_, nothing_follows) = watch::channel(());
        let told = |embedded: usize| tell(Progress { embedded: embedded as u64, ..Progress::default() });
        let outcome = embed::missing(&self.ports, Wanted::All, nothing_follows, &told).await;
        outcome.failure.map_or(Ok(outcome.embedded), Err)
    }
}
