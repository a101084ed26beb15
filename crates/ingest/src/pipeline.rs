//! Runs documents through parsing, chunking, storing and embedding.
//!
//! [`Pipeline::ingest_source`] reads the new and changed files of a source; [`domain::Ingest`] takes the documents
//! of a client's request. Both compute [digests](digest), [prepare] the documents whose digest is new on all cores,
//! [store](filing) them in short transactions, after which they are searchable by words, and [embed] their chunks.
//!
//! The catalog is the queue between storing and embedding: a crash loses nothing, and waiting chunks take no memory.

mod client_documents;
mod digest;
mod embed;
mod filing;
mod prepare;
mod read;
mod report;

use std::sync::Arc;

use domain::{Catalog, Clock, Embedder, Failure, IndexSync};
use tokio::sync::Semaphore;

use crate::chunk::{ChunkBudget, ChunkStrategy};
use digest::DigestContext;
use embed::EmbedScope;
use prepare::Chunker;
pub use report::{IngestError, IngestProgress, OnProgress, SourceReport};

/// The ports of a [`Pipeline`].
pub struct PipelinePorts {
    /// Stores the documents.
    pub catalog: Arc<dyn Catalog>,
    /// Counts the tokens of chunks and computes their vectors.
    pub embedder: Arc<dyn Embedder>,
    /// The time of writes.
    pub clock: Arc<dyn Clock>,
    /// Reports when documents are searchable; `None` if this process does not search.
    pub index_sync: Option<Arc<dyn IndexSync>>,
}

/// The settings of a [`Pipeline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineSettings {
    /// How documents are split.
    pub strategy: ChunkStrategy,
    /// Maximum concurrent calls of [`domain::Ingest::ingest`]; further calls are rejected.
    pub max_calls: usize,
}

impl Default for PipelineSettings {
    fn default() -> Self {
        Self { strategy: ChunkStrategy::Structure(ChunkBudget::default()), max_calls: 8 }
    }
}

/// Ingests documents into a catalog.
pub struct Pipeline {
    ports: PipelinePorts,
    strategy: ChunkStrategy,
    calls: Semaphore,
}

impl Pipeline {
    /// A pipeline between these ports.
    pub fn new(ports: PipelinePorts, settings: PipelineSettings) -> Self {
        Self { ports, strategy: settings.strategy, calls: Semaphore::new(settings.max_calls) }
    }

    /// Embeds every chunk, of any tenant, that has no vector of the embedder's model. Returns the number of new
    /// vectors.
    pub async fn embed_missing(&self, on_progress: OnProgress<'_>) -> Result<usize, Failure> {
        let on_embedded = |embedded: usize| {
            on_progress(IngestProgress { embedded: embedded as u64, ..IngestProgress::default() });
        };
        let outcome = embed::embed_missing(&self.ports, EmbedScope::All, None, &on_embedded).await;
        outcome.failure.map_or(Ok(outcome.embedded), Err)
    }

    /// Chunks by the token counter of the embedder.
    async fn chunker(&self) -> Result<Chunker, Failure> {
        Ok(Chunker { strategy: self.strategy, count_tokens: self.ports.embedder.token_counter().await? })
    }

    fn digests(&self) -> DigestContext {
        DigestContext::new(self.strategy, self.ports.embedder.model())
    }
}
