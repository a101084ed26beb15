//! A knowledge base in memory with a collection's documents: parsed, cut, filed, embedded and indexed as a
//! server's are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{
    Catalog, Chunk, Document, Embedder, EmbeddingPriority, Index, IndexSync, Metadata, NewDocument,
    Principal, SourceKind, StorageError, Timestamp, TokenCounter,
};
use ingest::chunk::{self, ChunkStrategy};
use ingest::{names, parse};
use retrieval::{EmbeddedIndex, IndexFollower};
use storage::SqliteCatalog;

use super::collection::Entry;

/// Documents filed, or chunks embedded, at once.
const AT_ONCE: usize = 256;

/// A knowledge base. Clones are the same one.
#[derive(Clone)]
pub(super) struct Library {
    catalog: Arc<SqliteCatalog>,
    index: Arc<EmbeddedIndex>,
    /// How many chunks it has.
    pub(super) chunks: usize,
    /// How long it took to fill.
    pub(super) took: Duration,
}

impl Library {
    /// Takes in documents.
    pub(super) async fn fill(
        documents: &[Entry],
        strategy: ChunkStrategy,
        embedder: Arc<dyn Embedder>,
    ) -> Result<Self, String> {
        let count_tokens = embedder.token_counter().await.map_err(|failure| failure.message)?;
        let index = EmbeddedIndex::in_memory(embedder.model()).map_err(|unusable| unusable.to_string())?;
        let mut library = Self {
            catalog: Arc::new(SqliteCatalog::in_memory()),
            index: Arc::new(index),
            chunks: 0,
            took: Duration::ZERO,
        };
        let began = Instant::now();
        library.file(documents, strategy, &count_tokens).await.map_err(reason)?;
        library.embed(embedder.as_ref()).await?;
        library.publish(embedder.model()).await.map_err(reason)?;
        library.took = began.elapsed();
        Ok(library)
    }

    pub(super) fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.catalog) as Arc<dyn Catalog>
    }

    pub(super) fn index(&self) -> Arc<dyn Index> {
        Arc::clone(&self.index) as Arc<dyn Index>
    }

    async fn file(
        &mut self,
        documents: &[Entry],
        strategy: ChunkStrategy,
        count_tokens: &TokenCounter,
    ) -> Result<(), StorageError> {
        for entries in documents.chunks(AT_ONCE) {
            let documents: Vec<_> =
                entries.iter().map(|entry| document(entry, strategy, count_tokens)).collect();
            self.chunks += documents.iter().map(|document| document.chunks.len()).sum::<usize>();
            self.catalog.put(&Principal::local(), documents).await?;
        }
        Ok(())
    }

    async fn embed(&self, embedder: &dyn Embedder) -> Result<(), String> {
        loop {
            let missing = self.catalog.unembedded(embedder.model(), AT_ONCE).await.map_err(reason)?;
            if missing.is_empty() {
                return Ok(());
            }
            let texts = missing.iter().map(|chunk| chunk.text.clone()).collect();
            let vectors =
                embedder.embed(texts, EmbeddingPriority::Bulk).await.map_err(|failure| failure.message)?;
            let vectors = missing.into_iter().zip(vectors).collect();
            self.catalog.put_vectors(embedder.model(), vectors).await.map_err(reason)?;
        }
    }

    async fn publish(&self, model: &str) -> Result<(), StorageError> {
        let follower = IndexFollower::start(self.catalog(), self.index(), model);
        follower.wait_until_searchable().await?;
        follower.stop().await;
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn reason(error: StorageError) -> String {
    error.to_string()
}

/// A document, cut.
fn document(entry: &Entry, strategy: ChunkStrategy, count_tokens: &TokenCounter) -> NewDocument {
    let Entry { place, title, text } = entry;
    let parsed = parse(&place.file_path, text);
    let id = place.document();
    let mut seen: HashMap<(&str, String), usize> = HashMap::new();
    let cut = chunk::chunk_document(&parsed, strategy, count_tokens.as_ref());
    let chunks = cut.into_iter().map(|chunk| {
        let words = &text[chunk.range.clone()];
        let earlier = seen.entry((words, chunk.context.clone())).or_default();
        *earlier += 1;
        Chunk {
            id: Chunk::id(id, &chunk.context, words, *earlier - 1),
            bytes: chunk.range,
            lines: chunk.lines,
            kind: chunk.kind,
            section: chunk.section,
            subsection: chunk.subsection,
            anchor: chunk.heading.and_then(|heading| heading.anchor),
            context: chunk.context,
        }
    });
    let chunks = chunks.collect();
    let document = Document {
        id,
        source: SourceKind::Folder,
        title: title.clone().unwrap_or_else(|| names::title(None, &parsed, &place.file_path)),
        language: parsed.media().language().map(str::to_owned),
        url: None,
        module: Some(names::module(None, &place.file_path, &place.collection)),
        tags: names::tags(&parsed).to_vec(),
        metadata: Metadata::new(),
        text: text.clone(),
        place: place.clone(),
    };
    // Nothing is filed twice, so that digests have nothing to tell.
    NewDocument { document, chunks, digest: [0; 32], at: Timestamp::from_micros(0) }
}
