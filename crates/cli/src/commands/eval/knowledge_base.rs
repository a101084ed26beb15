//! A knowledge base in memory with a collection's documents: parsed, cut, filed, embedded and indexed like a server's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{
    Catalog, Document, Embedder, EmbeddingPriority, Index, IndexSync, Metadata, NewDocument, Principal,
    SourceKind, StorageError, Timestamp, TokenCounter,
};
use ingest::chunk::{self, ChunkStrategy};
use ingest::{names, parse};
use retrieval::{EmbeddedIndex, IndexFollower};
use storage::SqliteCatalog;

use super::collection::CollectionDocument;
use crate::commands::CommandError;
use crate::wiring::WiringError;

/// Documents filed, or chunks embedded, in one batch.
const BATCH: usize = 256;

pub(super) struct EvalKnowledgeBase {
    catalog: Arc<SqliteCatalog>,
    index: Arc<EmbeddedIndex>,
    /// The number of chunks.
    pub(super) chunks: usize,
    /// The time of the ingest.
    pub(super) took: Duration,
}

impl EvalKnowledgeBase {
    /// Ingests the documents.
    pub(super) async fn fill(
        documents: &[CollectionDocument],
        strategy: ChunkStrategy,
        embedder: Arc<dyn Embedder>,
    ) -> Result<Self, CommandError> {
        let count_tokens = embedder.token_counter().await?;
        let index = EmbeddedIndex::in_memory(embedder.model()).map_err(WiringError::Index)?;
        let mut knowledge = Self {
            catalog: Arc::new(SqliteCatalog::in_memory()),
            index: Arc::new(index),
            chunks: 0,
            took: Duration::ZERO,
        };
        let began = Instant::now();
        knowledge.file(documents, strategy, &count_tokens).await?;
        knowledge.embed(embedder.as_ref()).await?;
        knowledge.publish(embedder.model()).await?;
        knowledge.took = began.elapsed();
        Ok(knowledge)
    }

    pub(super) fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.catalog) as Arc<dyn Catalog>
    }

    pub(super) fn index(&self) -> Arc<dyn Index> {
        Arc::clone(&self.index) as Arc<dyn Index>
    }

    async fn file(
        &mut self,
        documents: &[CollectionDocument],
        strategy: ChunkStrategy,
        count_tokens: &TokenCounter,
    ) -> Result<(), StorageError> {
        for entries in documents.chunks(BATCH) {
            let documents: Vec<_> =
                entries.iter().map(|entry| document(entry, strategy, count_tokens)).collect();
            self.chunks += documents.iter().map(|document| document.chunks.len()).sum::<usize>();
            self.catalog.put(&Principal::local(), documents).await?;
        }
        Ok(())
    }

    async fn embed(&self, embedder: &dyn Embedder) -> Result<(), CommandError> {
        loop {
            let missing = self.catalog.unembedded(embedder.model(), BATCH).await?;
            if missing.is_empty() {
                return Ok(());
            }
            let texts = missing.iter().map(|chunk| chunk.text.clone()).collect();
            let vectors = embedder.embed(texts, EmbeddingPriority::Bulk).await?;
            let vectors = missing.into_iter().zip(vectors).collect();
            self.catalog.put_vectors(embedder.model(), vectors).await?;
        }
    }

    async fn publish(&self, model: &str) -> Result<(), StorageError> {
        let follower = IndexFollower::start(self.catalog(), self.index(), model);
        follower.wait_until_searchable().await?;
        follower.stop().await;
        Ok(())
    }
}

/// A document, parsed and cut into chunks.
fn document(entry: &CollectionDocument, strategy: ChunkStrategy, count_tokens: &TokenCounter) -> NewDocument {
    let CollectionDocument { location, title, text } = entry;
    let parsed = parse(&location.file_path, text);
    let id = location.document();
    let cut = chunk::chunk_document(&parsed, strategy, count_tokens.as_ref());
    let chunks = chunk::with_ids(id, text, cut);
    let document = Document {
        id,
        source: SourceKind::Folder,
        title: title.clone().unwrap_or_else(|| names::title(None, &parsed, &location.file_path)),
        language: parsed.media().language().map(str::to_owned),
        url: None,
        module: Some(names::module(None, &location.file_path, &location.collection)),
        tags: names::tags(&parsed).to_vec(),
        metadata: Metadata::new(),
        text: text.clone(),
        place: location.clone(),
    };
    // Each document is filed once, so its digest is never compared.
    NewDocument { document, chunks, digest: [0; 32], at: Timestamp::from_micros(0) }
}
