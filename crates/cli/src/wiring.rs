//! Wiring: the one place that knows which provider, which store and which index stand behind the ports.

mod chat;
mod clock;
mod embedder;
mod knowledge;
mod members;

use std::sync::Arc;

use domain::{Clock, History, Journal, Retriever, Sessions, WhenNothingFound};
use engine::{AnswerSettings, Engine, Limits, Ports, Providers, RewriteMode};
use ingest::Pipeline;
use providers::HealthCheckedProvider;
use retrieval::IndexFollower;
use server::{KnowledgeParts, ServerParts};
use storage::{Durability, DurableStore, DurableStoreSettings, JournalLimits, MemoryLimits, MemoryStore};

use crate::ahead::ReadAhead;
use crate::settings::{self, NothingFoundPolicy, ReadingAhead, RewritingKind, Settings, StorageKind};
pub(crate) use chat::chat_model;
use clock::SystemClock;
pub(crate) use embedder::embedder;
pub(crate) use knowledge::Knowledge;
use knowledge::Searched;
use members::{Members, members};

/// How long a process lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// For what it was started for: nothing can be left for later.
    Briefly,
    /// Until it is told to stop, with time in which nobody asks.
    Long,
}

/// A server, wired.
pub(crate) struct Wired {
    /// What it stands on.
    pub(crate) parts: ServerParts,
    /// What documents go through on their way in.
    pub(crate) pipeline: Arc<Pipeline>,
    /// What keeps the index up to the catalog.
    pub(crate) follower: Arc<IndexFollower>,
    /// The providers, to be looked at from time to time.
    pub(crate) watched: Vec<Arc<HealthCheckedProvider>>,
    /// What reads passages ahead of any question.
    pub(crate) ahead: Vec<ReadAhead>,
}

/// A server as the settings want it.
pub(crate) async fn server(settings: &Settings, lasts: Lasts) -> Result<Wired, String> {
    // First, since it takes the folder's lock: a second server is told what is wrong.
    let history = history(settings)?;
    let knowledge = Knowledge::open(settings)?;
    let Searched { follower, retriever } = knowledge.search(settings).await?;
    let pipeline = Arc::new(knowledge.pipeline(settings, Some(follower.clone())));
    let Members { providers, watched, keeping } = members(settings, lasts)?;
    let keeping = keeping.into_iter().filter(|_| settings.models.read_ahead == ReadingAhead::Idle);
    let ahead = keeping.map(|model| knowledge.read_ahead(model)).collect();
    let parts = ServerParts {
        engine: engine(settings, providers, history, retriever.clone()),
        embedder: knowledge.embedder,
        knowledge: KnowledgeParts {
            catalog: knowledge.catalog,
            ingest: pipeline.clone(),
            retriever,
            index_sync: follower.clone(),
        },
    };
    Ok(Wired { parts, pipeline, follower, watched, ahead })
}

/// An engine whose sessions and prompts are kept in memory.
pub(crate) fn engine_in_memory(settings: &Settings, retriever: Arc<dyn Retriever>) -> Result<Engine, String> {
    Ok(engine(settings, members(settings, Lasts::Briefly)?.providers, in_memory(settings), retriever))
}

/// What keeps sessions, prompts and their logs, as the engine's ports.
type Kept = (Arc<dyn Journal>, Arc<dyn Sessions>, Arc<dyn History>);

fn history(settings: &Settings) -> Result<Kept, String> {
    Ok(match settings.storage.kind {
        StorageKind::Memory => in_memory(settings),
        StorageKind::Sqlite => {
            let durable = DurableStore::open(&durable_settings(settings), SystemClock.now());
            let durable = Arc::new(durable.map_err(|error| format!("storage: {error}"))?);
            (durable.clone(), durable.clone(), durable)
        }
        StorageKind::Postgres => unreachable!("settings refuse what is not built"),
    })
}

fn in_memory(settings: &Settings) -> Kept {
    let storage = &settings.storage;
    let limits = MemoryLimits { bytes: storage.memory_bytes, sessions: storage.memory_sessions };
    let memory = Arc::new(MemoryStore::new(limits));
    (memory.clone(), memory.clone(), memory)
}

fn engine(settings: &Settings, providers: Providers, history: Kept, retriever: Arc<dyn Retriever>) -> Engine {
    let (journal, sessions, history) = history;
    let ports = Ports { journal, sessions, history, retriever, clock: Arc::new(SystemClock) };
    let generation = &settings.generation;
    let answering = AnswerSettings {
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
    Engine::new(ports, providers, limits(settings), answering)
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
