//! The knowledge base: the catalog, the embedder, the ingest pipeline and the index.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::{Catalog, Embedder, Index, IndexSync, Retriever};
use ingest::chunk::{ChunkBudget, ChunkStrategy};
use ingest::{Pipeline, PipelinePorts, PipelineSettings};
use models::chat::LlamaProvider;
use retrieval::{EmbeddedIndex, Fusion, HybridRetriever, IndexFollower, OpenIndexError};
use tokio::time::{Instant, sleep};

use super::clock::SystemClock;
use super::{WiringError, durability, embedder};
use crate::settings::{Chunking, RerankKind, Settings, StorageKind};
use crate::warmup::Warmup;

/// How long to wait for the index while another command has it locked, and how often to try.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// How long a search waits at most for the index to catch up with documents filed before it.
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(100);

/// The catalog and its embedder.
pub(crate) struct KnowledgeBase {
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) embedder: Arc<dyn Embedder>,
}

impl KnowledgeBase {
    /// Opens the catalog. Other processes may have it open.
    pub(crate) fn open(settings: &Settings) -> Result<Self, WiringError> {
        let catalog = match settings.storage.kind {
            StorageKind::Memory => storage::SqliteCatalog::in_memory(),
            StorageKind::Sqlite => storage::SqliteCatalog::open(&settings.data_dir, durability(settings))?,
        };
        Ok(Self { catalog: Arc::new(catalog), embedder: embedder(settings)? })
    }

    /// The pipeline of documents into the catalog, and on into the index if it is in this process.
    pub(crate) fn pipeline(&self, settings: &Settings, index_sync: Option<Arc<dyn IndexSync>>) -> Pipeline {
        let strategy = match settings.ingest.chunking {
            Chunking::Structure => ChunkStrategy::Structure(ChunkBudget::default()),
            Chunking::Words => ChunkStrategy::Words,
        };
        let ports = PipelinePorts {
            catalog: self.catalog.clone(),
            embedder: self.embedder.clone(),
            clock: Arc::new(SystemClock),
            index_sync,
        };
        Pipeline::new(ports, PipelineSettings { strategy, ..PipelineSettings::default() })
    }

    /// The warm-up of a model's prefix cache, whose folder this number of models share.
    pub(crate) fn warmup(&self, model: Arc<LlamaProvider>, sharers: usize) -> Warmup {
        Warmup::new(self.catalog.clone(), model, sharers)
    }

    /// Opens the index and begins to follow the catalog. Waits a moment if another process has it locked.
    pub(crate) async fn open_index(&self, settings: &Settings) -> Result<SearchableIndex, WiringError> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match open_index(settings, self.embedder.model()) {
                Err(OpenIndexError::InUse) if Instant::now() < deadline => sleep(LOCK_RETRY).await,
                opened => return Ok(self.follow(opened?, settings)),
            }
        }
    }

    /// Opens the index; `None` if another process has it locked.
    pub(crate) fn open_index_if_free(
        &self,
        settings: &Settings,
    ) -> Result<Option<SearchableIndex>, WiringError> {
        match open_index(settings, self.embedder.model()) {
            Ok(index) => Ok(Some(self.follow(index, settings))),
            Err(OpenIndexError::InUse) => Ok(None),
            Err(unusable) => Err(unusable.into()),
        }
    }

    /// Deletes the index and fills a new one from the catalog. No other process may have it open.
    pub(crate) fn rebuild_index(&self, settings: &Settings) -> Result<SearchableIndex, WiringError> {
        let index = EmbeddedIndex::recreate(&index_folder(settings), self.embedder.model())?;
        Ok(self.follow(index, settings))
    }

    fn follow(&self, index: EmbeddedIndex, settings: &Settings) -> SearchableIndex {
        let (catalog, embedder) = (self.catalog.clone(), self.embedder.clone());
        let index: Arc<dyn Index> = Arc::new(index);
        let follower = Arc::new(IndexFollower::start(catalog.clone(), index.clone(), embedder.model()));
        let retriever = HybridRetriever::new(catalog, index, embedder, fusion(settings));
        let retriever = retriever.with_index_sync(follower.clone(), CATCH_UP_TIMEOUT);
        SearchableIndex { follower, retriever: Arc::new(retriever) }
    }
}

/// The index while it follows the catalog.
pub(crate) struct SearchableIndex {
    pub(crate) follower: Arc<IndexFollower>,
    pub(crate) retriever: Arc<dyn Retriever>,
}

impl SearchableIndex {
    /// Waits until the index has everything that is in the catalog now.
    pub(crate) async fn caught_up(&self) -> Result<(), WiringError> {
        self.follower.wait_until_searchable().await.map_err(WiringError::IndexBehind)
    }
}

/// How the lexical and the dense ranking are combined.
pub(crate) fn fusion(settings: &Settings) -> Fusion {
    match settings.rerank.kind {
        RerankKind::Embedded => Fusion::Weighted,
        RerankKind::None => Fusion::ReciprocalRank,
    }
}

fn open_index(settings: &Settings, model: &str) -> Result<EmbeddedIndex, OpenIndexError> {
    match settings.storage.kind {
        StorageKind::Memory => EmbeddedIndex::in_memory(model),
        StorageKind::Sqlite => EmbeddedIndex::open(&index_folder(settings), model),
    }
}

fn index_folder(settings: &Settings) -> PathBuf {
    settings.data_dir.join("index")
}
