//! Wiring: the one place that knows which provider and which store stand behind the ports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::{Clock, Embedder, Model, Provider, Timestamp};
use engine::{Engine, Limits, Ports, Providers};
use models::chat::LlamaProvider;
use models::embedder::BertEmbedder;
use models::files::Files;
use providers::{
    Batches, HttpEmbedder, HttpProvider, Ollama, OpenAi, Order, Quotes, RemoteEmbedder, Retries,
};
use storage::{Durability, Durable, DurableSettings, JournalLimits, Memory, MemoryLimits};

use crate::settings::{
    self, EmbeddedModel, EmbeddingKind, ProviderKind, ProviderSettings, Settings, StorageKind,
};

/// An engine as the settings want it.
pub(crate) fn engine(settings: &Settings) -> Result<Engine, String> {
    let ports = ports(settings)?;
    Ok(Engine::new(ports, providers(settings)?, limits(settings), settings.generation.temperature))
}

fn ports(settings: &Settings) -> Result<Ports, String> {
    let storage = &settings.storage;
    let clock = Arc::new(SystemClock);
    Ok(match storage.kind {
        StorageKind::Memory => {
            let limits = MemoryLimits { bytes: storage.memory_bytes, sessions: storage.memory_sessions };
            let memory = Arc::new(Memory::new(limits));
            Ports { journal: memory.clone(), sessions: memory.clone(), history: memory, clock }
        }
        StorageKind::Sqlite => {
            let durable = Durable::open(&durable_settings(settings), clock.now());
            let durable = Arc::new(durable.map_err(|error| format!("storage: {error}"))?);
            Ports { journal: durable.clone(), sessions: durable.clone(), history: durable, clock }
        }
        StorageKind::Postgres => unreachable!("settings refuse what is not built"),
    })
}

fn durable_settings(settings: &Settings) -> DurableSettings {
    let storage = &settings.storage;
    DurableSettings {
        folder: settings.data_dir.clone(),
        durability: match storage.durability {
            settings::Durability::Process => Durability::Process,
            settings::Durability::Power => Durability::Power,
        },
        journal: JournalLimits { segment_bytes: storage.segment_bytes, journal_bytes: storage.journal_bytes },
        cache_bytes: storage.cache_bytes,
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

fn providers(settings: &Settings) -> Result<Providers, String> {
    let mut members: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
    for (name, provider_settings) in &settings.providers {
        members.insert(name.clone(), provider(name, provider_settings, settings)?);
    }
    let generation = &settings.generation;
    // Also a provider that is asked by its name alone is given up when it stays silent.
    let order = |names: &[String]| -> Arc<dyn Provider> {
        let members = names.iter().map(|name| members[name].clone()).collect();
        Arc::new(Order::new(members, generation.first_token))
    };
    let named = members.keys().map(|name| (name.clone(), order(std::slice::from_ref(name)))).collect();
    let mut providers = Providers::new(named, order(&generation.providers));
    for owner_order in &generation.orders {
        let added = providers.owner_order(&owner_order.owner, order(&owner_order.providers));
        providers = added.map_err(|error| format!("generation.orders: {error}"))?;
    }
    Ok(providers)
}

fn provider(name: &str, own: &ProviderSettings, settings: &Settings) -> Result<Arc<dyn Provider>, String> {
    let provider: Result<Arc<dyn Provider>, _> = match own.kind {
        ProviderKind::Embedded => return Ok(Arc::new(chat_model(name, own, settings))),
        ProviderKind::Quotes => return Ok(Arc::new(Quotes::new(name))),
        ProviderKind::Ollama => Ollama::new(http(name, own)).map(|provider| Arc::new(provider) as _),
        ProviderKind::Openai => OpenAi::new(http(name, own)).map(|provider| Arc::new(provider) as _),
    };
    provider.map_err(|error| format!("providers.{name}.{error}"))
}

fn http(name: &str, settings: &ProviderSettings) -> HttpProvider {
    HttpProvider {
        name: name.to_owned(),
        base_url: settings.base_url.clone().unwrap_or_default(),
        model: settings.model.clone(),
        api_key: settings.api_key.as_ref().map(|key| key.expose().into()),
        context_window: settings.context_window,
        connect: settings.connect,
        proxy: settings.proxy.as_ref().map(|proxy| proxy.expose().as_str().into()),
    }
}

/// A chat model in this process: there at once, it gets ready by itself.
fn chat_model(name: &str, own: &ProviderSettings, settings: &Settings) -> LlamaProvider {
    let limits = models::chat::Limits {
        window: own.context_window,
        waiting: settings.limits.model_queue,
        ..models::chat::Limits::default()
    };
    let called = |model: &str| Model { provider: Arc::from(name), model: Arc::from(model) };
    match own.embedded_model().expect("settings refuse a chat model that is not known") {
        EmbeddedModel::Own(path) => {
            let file = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
            LlamaProvider::open(called(&file), path.clone(), limits)
        }
        EmbeddedModel::Known(model) => {
            let files = Files::new(settings.models.dir.clone());
            let locate = move || files.locate(model).map_err(|unusable| unusable.to_string());
            LlamaProvider::find_and_open(called(&model.name), locate, limits)
        }
    }
}

/// An embedder as the settings want it. One in this process is there at once, and gets ready by itself.
pub(crate) fn embedder(settings: &Settings) -> Result<Arc<dyn Embedder>, String> {
    let embedding = &settings.embedding;
    let remote = match embedding.kind {
        EmbeddingKind::Embedded => return Ok(Arc::new(embedded_model(settings))),
        EmbeddingKind::Ollama => RemoteEmbedder::ollama,
        EmbeddingKind::Openai => RemoteEmbedder::openai,
    };
    let embedder = remote(HttpEmbedder {
        name: "embedding".to_owned(),
        base_url: embedding.base_url.clone().unwrap_or_default(),
        model: embedding.model.clone().unwrap_or_default(),
        api_key: embedding.api_key.as_ref().map(|key| key.expose().into()),
        connect: embedding.connect,
        proxy: embedding.proxy.as_ref().map(|proxy| proxy.expose().as_str().into()),
        dimension: embedding.dimension,
        token_limit: embedding.token_limit,
        batches: Batches {
            texts: embedding.batch_texts,
            bytes: embedding.batch_bytes,
            calls: embedding.calls,
        },
        timeout: embedding.timeout,
        retries: Retries::default(),
    });
    Ok(Arc::new(embedder.map_err(|error| format!("embedding.{error}"))?))
}

fn embedded_model(settings: &Settings) -> BertEmbedder {
    let limits = models::embedder::Limits::default();
    match settings.embedding.embedded_model().expect("settings refuse an embedder that is not known") {
        EmbeddedModel::Own(folder) => BertEmbedder::open(folder.display().to_string(), folder, limits),
        EmbeddedModel::Known(model) => {
            let files = Files::new(settings.models.dir.clone());
            let locate = move || files.locate(model).map_err(|unusable| unusable.to_string());
            BertEmbedder::find_and_open(&model.name, locate, limits)
        }
    }
}

/// The machine's clock.
struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }
}
