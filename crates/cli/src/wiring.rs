//! Wiring: the one place that knows which provider, which store and which index stand behind the ports.

mod chat_model;
mod clock;
mod embedder;
mod knowledge;
mod providers;

use std::sync::Arc;

use ::providers::{HealthCheckedProvider, InvalidSettings};
use domain::{Clock, History, Journal, Retriever, Sessions, StorageError, WhenNothingFound};
use engine::{AnswerSettings, Engine, InvalidOwnerPattern, Limits, Ports, Providers, RewriteMode};
use ingest::Pipeline;
use retrieval::{IndexFollower, OpenIndexError};
use server::{KnowledgeParts, ServerParts};
use storage::{Durability, DurableStore, DurableStoreSettings, JournalLimits, MemoryLimits, MemoryStore};

use self::providers::{WiredProviders, wire_providers};
use crate::settings::{self, NothingFoundPolicy, ReadingAhead, RewritingKind, Settings, StorageKind};
use crate::warmup::Warmup;
pub(crate) use chat_model::chat_model;
use clock::SystemClock;
pub(crate) use embedder::embedder;
pub(crate) use knowledge::{KnowledgeBase, fusion};

/// Why a part of the server cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WiringError {
    #[error("storage: {0}")]
    Storage(#[from] StorageError),
    #[error("index: {0}")]
    Index(#[from] OpenIndexError),
    /// The index did not catch up with the catalog.
    #[error("index: {0}")]
    IndexBehind(StorageError),
    #[error("embedding.{0}")]
    Embedding(InvalidSettings),
    #[error("providers.{name}.{source}")]
    Provider { name: String, source: InvalidSettings },
    #[error("generation.orders: {0}")]
    OwnerOrder(#[from] InvalidOwnerPattern),
}

/// How long a process runs, which decides whether work can be postponed until it is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessLifetime {
    /// Until the command is done.
    OneCommand,
    /// Until it is stopped.
    Server,
}

/// A server, wired.
pub(crate) struct WiredServer {
    pub(crate) parts: ServerParts,
    pub(crate) pipeline: Arc<Pipeline>,
    /// Keeps the index up to date with the catalog.
    pub(crate) follower: Arc<IndexFollower>,
    /// The providers whose health is checked in the background.
    pub(crate) watched: Vec<Arc<HealthCheckedProvider>>,
    /// Fills the prefix cache of each model in this process.
    pub(crate) warmups: Vec<Warmup>,
}

/// Wires a server, or a command that answers in its place.
pub(crate) async fn server(
    settings: &Settings,
    lifetime: ProcessLifetime,
) -> Result<WiredServer, WiringError> {
    // The history comes first, since it takes the folder's lock: a second server fails with that message.
    let history = history(settings)?;
    let knowledge = KnowledgeBase::open(settings)?;
    let search = knowledge.open_index(settings).await?;
    let pipeline = Arc::new(knowledge.pipeline(settings, Some(search.follower.clone())));
    let WiredProviders { providers, watched, caching } = wire_providers(settings, lifetime)?;
    let has_room =
        settings.models.prefix_cache_memory_bytes > 0 || settings.models.prefix_cache_disk_bytes > 0;
    let warms_up = has_room && settings.models.read_ahead == ReadingAhead::Idle;
    let sharers = caching.len();
    let caching = caching.into_iter().filter(|_| warms_up);
    let warmups = caching.map(|model| knowledge.warmup(model, sharers)).collect();
    let parts = ServerParts {
        engine: engine(settings, providers, history, search.retriever.clone()),
        embedder: knowledge.embedder,
        knowledge: KnowledgeParts {
            catalog: knowledge.catalog,
            ingest: pipeline.clone(),
            retriever: search.retriever,
            index_sync: search.follower.clone(),
        },
    };
    Ok(WiredServer { parts, pipeline, follower: search.follower, watched, warmups })
}

/// The stores of sessions, prompts and logs, as the engine's ports.
type HistoryPorts = (Arc<dyn Journal>, Arc<dyn Sessions>, Arc<dyn History>);

fn history(settings: &Settings) -> Result<HistoryPorts, WiringError> {
    Ok(match settings.storage.kind {
        StorageKind::Memory => {
            let storage = &settings.storage;
            let limits = MemoryLimits { bytes: storage.memory_bytes, sessions: storage.memory_sessions };
            let memory = Arc::new(MemoryStore::new(limits));
            (memory.clone(), memory.clone(), memory)
        }
        StorageKind::Sqlite => {
            let durable = Arc::new(DurableStore::open(&durable_settings(settings), SystemClock.now())?);
            (durable.clone(), durable.clone(), durable)
        }
    })
}

fn engine(
    settings: &Settings,
    providers: Providers,
    history: HistoryPorts,
    retriever: Arc<dyn Retriever>,
) -> Engine {
    let (journal, sessions, history) = history;
    let ports = Ports { journal, sessions, history, retriever, clock: Arc::new(SystemClock) };
    let generation = &settings.generation;
    let answer_settings = AnswerSettings {
        temperature: generation.temperature,
        context_tokens: generation.context_tokens,
        #[expect(clippy::cast_possible_truncation, reason = "it is between 0 and 1")]
        min_cosine_share: generation.least_share as f32,
        when_nothing_found: match generation.when_nothing_found {
            NothingFoundPolicy::Dialect => None,
            NothingFoundPolicy::Answer => Some(WhenNothingFound::Answer),
            NothingFoundPolicy::SaySo => Some(WhenNothingFound::SaySo),
        },
        rewrite_mode: match generation.rewriting {
            RewritingKind::Rule => RewriteMode::Rule,
            RewritingKind::Model => RewriteMode::Model,
            RewritingKind::Off => RewriteMode::Off,
        },
    };
    Engine::new(ports, providers, limits(settings), answer_settings)
}

fn durable_settings(settings: &Settings) -> DurableStoreSettings {
    let storage = &settings.storage;
    DurableStoreSettings {
        folder: settings.data_dir.clone(),
        durability: durability(settings),
        journal: JournalLimits { segment_bytes: storage.segment_bytes, journal_bytes: storage.journal_bytes },
        cache_bytes: storage.cache_bytes,
    }
}

fn durability(settings: &Settings) -> Durability {
    match settings.storage.durability {
        settings::Durability::Process => Durability::Process,
        settings::Durability::Power => Durability::Power,
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        concurrent_streams: settings.limits.concurrent_streams,
        readers: settings.limits.readers,
        question_chars: settings.limits.question_chars,
        answer_bytes: settings.limits.answer_bytes,
        max_tokens: settings.generation.max_tokens,
        stall: settings.generation.stall,
        total: settings.generation.total,
        resume: settings.streams.resume,
        idle: settings.sessions.idle,
    }
}
