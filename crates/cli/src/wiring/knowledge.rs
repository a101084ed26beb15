//! The knowledge base as the settings want it: the catalog, who embeds, the way in, and what is searched.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::{Catalog, Embedder, Index, IndexSync, Retriever, StorageError};
use ingest::chunk::{ChunkBudget, ChunkStrategy};
use ingest::{Pipeline, PipelinePorts, PipelineSettings};
use models::chat::LlamaProvider;
use retrieval::{EmbeddedIndex, Fusion, HybridRetriever, IndexFollower, OpenIndexError};
use tokio::time::{Instant, sleep};

use super::clock::SystemClock;
use super::{durability, embedder};
use crate::ahead::ReadAhead;
use crate::settings::{Chunking, IndexKind, RerankKind, Settings, StorageKind};

/// Commands use the index for a moment: whoever comes meanwhile waits so long for it.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long a question waits at most until what was filed before it can be found.
const CATCHING_UP: Duration = Duration::from_millis(100);

/// What is known, and who embeds it.
pub(crate) struct Knowledge {
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) embedder: Arc<dyn Embedder>,
}

impl Knowledge {
    /// Opens the catalog. Other processes may have it open.
    pub(crate) fn open(settings: &Settings) -> Result<Self, String> {
        let catalog = match settings.storage.kind {
            StorageKind::Memory => storage::SqliteCatalog::in_memory(),
            StorageKind::Sqlite => storage::SqliteCatalog::open(&settings.data_dir, durability(settings))
                .map_err(|reason: StorageError| format!("storage: {reason}"))?,
            StorageKind::Postgres => unreachable!("settings refuse what is not built"),
        };
        Ok(Self { catalog: Arc::new(catalog), embedder: embedder(settings)? })
    }

    /// The way of documents into the catalog, and on into what is searched if that is in this process.
    pub(crate) fn pipeline(&self, settings: &Settings, published: Option<Arc<dyn IndexSync>>) -> Pipeline {
        let strategy = match settings.ingest.chunking {
            Chunking::Structure => ChunkStrategy::Structure(ChunkBudget::default()),
            Chunking::Words => ChunkStrategy::Words,
        };
        let ports = PipelinePorts {
            catalog: self.catalog.clone(),
            embedder: self.embedder.clone(),
            clock: Arc::new(SystemClock),
            index_sync: published,
        };
        Pipeline::new(ports, PipelineSettings { strategy, ..PipelineSettings::default() })
    }

    /// The passages, for a model that keeps what it reads of them.
    pub(crate) fn read_ahead(&self, model: Arc<LlamaProvider>) -> ReadAhead {
        ReadAhead::new(self.catalog.clone(), model)
    }

    /// Opens what is searched, as it was left, and begins to follow the catalog. Waits a moment for another
    /// process that uses it.
    pub(crate) async fn search(&self, settings: &Settings) -> Result<Searched, String> {
        let given_up = Instant::now() + PATIENCE;
        let index = loop {
            match open_index(settings, self.embedder.model()) {
                Err(OpenIndexError::InUse) if Instant::now() < given_up => sleep(LOOK_AGAIN).await,
                opened => break opened.map_err(|unusable| format!("index: {unusable}"))?,
            }
        };
        Ok(self.over(index, settings))
    }

    /// The same, if no other process uses it.
    pub(crate) fn search_if_free(&self, settings: &Settings) -> Result<Option<Searched>, String> {
        match open_index(settings, self.embedder.model()) {
            Ok(index) => Ok(Some(self.over(index, settings))),
            Err(OpenIndexError::InUse) => Ok(None),
            Err(unusable) => Err(format!("index: {unusable}")),
        }
    }

    /// Begins what is searched anew. Nobody may use it meanwhile.
    pub(crate) fn search_anew(&self, settings: &Settings) -> Result<Searched, String> {
        let index = EmbeddedIndex::recreate(&index_folder(settings), self.embedder.model());
        Ok(self.over(index.map_err(|unusable| format!("index: {unusable}"))?, settings))
    }

    fn over(&self, index: EmbeddedIndex, settings: &Settings) -> Searched {
        let fusion = match settings.rerank.kind {
            RerankKind::Embedded => Fusion::Weighted,
            RerankKind::None => Fusion::ReciprocalRank,
        };
        let (catalog, embedder) = (self.catalog.clone(), self.embedder.clone());
        let index: Arc<dyn Index> = Arc::new(index);
        let follower = Arc::new(IndexFollower::start(catalog.clone(), index.clone(), embedder.model()));
        let retriever = HybridRetriever::new(catalog, index, embedder, fusion)
            .with_index_sync(follower.clone(), CATCHING_UP);
        Searched { follower, retriever: Arc::new(retriever) }
    }
}

/// What is searched, while it follows the catalog.
pub(crate) struct Searched {
    pub(crate) follower: Arc<IndexFollower>,
    pub(crate) retriever: Arc<dyn Retriever>,
}

fn open_index(settings: &Settings, model: &str) -> Result<EmbeddedIndex, OpenIndexError> {
    match (settings.index.kind, settings.storage.kind) {
        (IndexKind::Qdrant, _) => unreachable!("settings refuse what is not built"),
        (IndexKind::Embedded, StorageKind::Memory) => EmbeddedIndex::in_memory(model),
        (IndexKind::Embedded, _) => EmbeddedIndex::open(&index_folder(settings), model),
    }
}

fn index_folder(settings: &Settings) -> PathBuf {
    settings.data_dir.join("index")
}
