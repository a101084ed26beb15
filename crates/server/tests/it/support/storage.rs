//! The store behind a test server. The suite is compiled as two binaries: `it` runs over the durable store
//! with the default settings, `over_memory` over the in-memory store.

use std::path::Path;
use std::sync::Arc;

use domain::{Catalog, Clock, History, Index, Journal, Sessions};
use retrieval::EmbeddedIndex;
use storage::{
    Durability, DurableStore, DurableStoreSettings, JournalLimits, MemoryLimits, MemoryStore, SqliteCatalog,
};
use tempfile::TempDir;
use testing::PausedClock;

/// The store of this binary.
pub(crate) const KIND: StorageKind = match env!("CARGO_CRATE_NAME").as_bytes() {
    b"over_memory" => StorageKind::Memory,
    _ => StorageKind::Durable,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    /// Files in a temporary folder.
    Durable,
    Memory,
}

/// Sessions, prompts, documents and their index.
pub(crate) struct TestStorage {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) sessions: Arc<dyn Sessions>,
    pub(crate) history: Arc<dyn History>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) index: Arc<dyn Index>,
    /// The folder of the durable store, removed when dropped.
    pub(crate) folder: Option<TempDir>,
}

impl TestStorage {
    /// An empty store, with an index for vectors of this embedding model.
    pub(crate) fn open(embedding_model: &str) -> Self {
        match KIND {
            StorageKind::Durable => {
                let folder = TempDir::new().expect("a temporary folder can be made");
                let store = durable(folder.path(), embedding_model);
                Self { folder: Some(folder), ..store }
            }
            StorageKind::Memory => in_memory(embedding_model),
        }
    }
}

/// The durable store, with the default settings of the binary.
fn durable(folder: &Path, embedding_model: &str) -> TestStorage {
    let settings = DurableStoreSettings {
        folder: folder.to_owned(),
        durability: Durability::Process,
        journal: JournalLimits { segment_bytes: 16 << 20, journal_bytes: 256 << 20 },
        cache_bytes: 16 << 20,
    };
    let store =
        Arc::new(DurableStore::open(&settings, PausedClock::new().now()).expect("an empty folder opens"));
    let index = EmbeddedIndex::open(&folder.join("index"), embedding_model);
    TestStorage {
        journal: store.clone(),
        sessions: store.clone(),
        history: store,
        catalog: Arc::new(SqliteCatalog::open(folder, Durability::Process).expect("an empty folder opens")),
        index: Arc::new(index.expect("an empty folder opens")),
        folder: None,
    }
}

fn in_memory(embedding_model: &str) -> TestStorage {
    let store = Arc::new(MemoryStore::new(MemoryLimits { bytes: 256 << 20, sessions: 100_000 }));
    let index = EmbeddedIndex::in_memory(embedding_model).expect("memory is available");
    TestStorage {
        journal: store.clone(),
        sessions: store.clone(),
        history: store,
        catalog: Arc::new(SqliteCatalog::in_memory()),
        index: Arc::new(index),
        folder: None,
    }
}
