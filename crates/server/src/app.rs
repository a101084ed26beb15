//! The parts that the server is built from, and the state that every handler shares.

use std::sync::Arc;

use domain::{Catalog, Embedder, IndexSync, Ingest, Retriever};
use engine::Engine;

use crate::health_checks::HealthChecks;
use crate::ingest_tasks::IngestTasks;
use crate::metrics::ErrorCounts;
use crate::middleware::RateLimiter;
use crate::settings::ServerSettings;

/// What the server calls.
pub struct ServerParts {
    /// Runs prompts.
    pub engine: Engine,
    /// Embeds queries; only its health is asked here.
    pub embedder: Arc<dyn Embedder>,
    /// The knowledge base.
    pub knowledge: KnowledgeParts,
}

/// The ports of the knowledge base.
pub struct KnowledgeParts {
    /// Stores documents.
    pub catalog: Arc<dyn Catalog>,
    /// Ingests documents.
    pub ingest: Arc<dyn Ingest>,
    /// Retrieves passages.
    pub retriever: Arc<dyn Retriever>,
    /// Says when the index has caught up with the catalog.
    pub index_sync: Arc<dyn IndexSync>,
}

/// The state of the application, shared by all handlers and middleware.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) engine: Engine,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) retriever: Arc<dyn Retriever>,
    pub(crate) ingest_tasks: Arc<IngestTasks>,
    pub(crate) health_checks: Arc<HealthChecks>,
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) error_counts: Arc<ErrorCounts>,
    pub(crate) rate_limiter: Option<Arc<RateLimiter>>,
}

impl AppState {
    pub(crate) fn new(parts: ServerParts, settings: ServerSettings) -> Self {
        let ServerParts { engine, embedder, knowledge } = parts;
        let KnowledgeParts { catalog, ingest, retriever, index_sync } = knowledge;
        Self {
            engine,
            catalog,
            retriever,
            ingest_tasks: Arc::new(IngestTasks::new(ingest)),
            health_checks: Arc::new(HealthChecks::new(embedder, index_sync)),
            rate_limiter: RateLimiter::new(settings.requests_per_minute).map(Arc::new),
            settings: Arc::new(settings),
            error_counts: Arc::default(),
        }
    }
}
