//! A server on a free port, with the real engine, real providers and a fake model server behind them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::{Catalog, Embedder, Index, Journal, Provider, Retriever, WhenNothingFound};
use engine::{AnswerSettings, Engine, Limits, Ports, Providers, RewriteMode};
use futures::stream;
use ingest::{Pipeline, PipelinePorts, PipelineSettings};
use providers::{
    BatchLimits, FallbackProvider, HttpEmbedderSettings, HttpProviderSettings, OllamaProvider,
    OpenAiProvider, RemoteEmbedder, RetryLimits,
};
use retrieval::{EmbeddedIndex, Fusion, HybridRetriever, IndexFollower};
use server::{ConnectionLimits, KnowledgeParts, ServerParts, ServerSettings};
use storage::{MemoryLimits, MemoryStore, SqliteCatalog};
use testing::{FailingCatalog, FailingJournal, FakeModel, PausedClock, ScriptedRetriever};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::world::World;

pub(crate) const KINDS: [Kind; 2] = [Kind::Ollama, Kind::OpenAi];

/// Whose API a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ollama,
    OpenAi,
}

/// A server that is yet to be started. Its limits are those of the contract.
pub(crate) struct Setup {
    limits: Limits,
    first_token: Duration,
    context_window: usize,
    settings: ServerSettings,
    /// None if nobody listens where the embedder should be.
    embedding_model: Option<String>,
    /// Where the embedder is, if not at the fake model server.
    embedder_at: Option<SocketAddr>,
    /// None if passages are those of the documents that were taken in.
    retriever: Option<Arc<dyn Retriever>>,
    answering: AnswerSettings,
    providers: Vec<(&'static str, Member)>,
    order: Option<Vec<&'static str>>,
    owner_orders: Vec<(&'static str, Vec<&'static str>)>,
}

enum Member {
    Http { kind: Kind, model: String, reachable: bool },
    Given(Arc<dyn Provider>),
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self {
            limits: Limits {
                concurrent_streams: 100,
                readers: 10_000,
                question_chars: 100_000,
                answer_bytes: 1 << 20,
                max_tokens: 2048,
                stall: Duration::from_secs(30),
                total: Duration::from_secs(600),
                resume: Duration::from_secs(15),
                idle: Duration::from_secs(3600),
            },
            first_token: Duration::from_secs(60),
            context_window: 8192,
            settings: ServerSettings {
                body_bytes: 1 << 20,
                ingest_body_bytes: 1 << 26,
                question_chars: 100_000,
                allowed_origins: Vec::new(),
                drain: Duration::ZERO,
                connections: ConnectionLimits::default(),
                requests_per_minute: 0,
                trusted_proxies: Vec::new(),
            },
            embedding_model: Some("fake".to_owned()),
            embedder_at: None,
            retriever: Some(Arc::new(ScriptedRetriever::nothing())),
            answering: AnswerSettings {
                temperature: 0.0,
                context_tokens: 1_000,
                min_cosine_share: 0.0,
                when_nothing_found: None,
                rewrite_mode: RewriteMode::Rule,
            },
            providers: Vec::new(),
            order: None,
            owner_orders: Vec::new(),
        }
    }

    /// A server with this one model, named `local`.
    pub(crate) fn of(model: &str) -> Self {
        Self::new().provider("local", Kind::Ollama, model)
    }

    /// Adds a provider to the end of the order.
    pub(crate) fn provider(mut self, name: &'static str, kind: Kind, model: &str) -> Self {
        self.providers.push((name, Member::Http { kind, model: model.to_owned(), reachable: true }));
        self
    }

    /// Adds a provider where nobody listens.
    pub(crate) fn unreachable(mut self, name: &'static str, kind: Kind) -> Self {
        self.providers.push((name, Member::Http { kind, model: "fake".to_owned(), reachable: false }));
        self
    }

    /// Adds a provider that the test made itself.
    pub(crate) fn given(mut self, name: &'static str, provider: impl Provider + 'static) -> Self {
        self.providers.push((name, Member::Given(Arc::new(provider))));
        self
    }

    /// Asks these in this order, instead of all.
    pub(crate) fn order(mut self, names: &[&'static str]) -> Self {
        self.order = Some(names.to_vec());
        self
    }

    pub(crate) fn owner_order(mut self, owner: &'static str, names: &[&'static str]) -> Self {
        self.owner_orders.push((owner, names.to_vec()));
        self
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn settings(mut self, change: impl FnOnce(&mut ServerSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Passages are found by this one.
    pub(crate) fn retriever(mut self, retriever: impl Retriever + 'static) -> Self {
        self.retriever = Some(Arc::new(retriever));
        self
    }

    /// Passages are those of the documents that are taken in.
    pub(crate) fn answers_from_documents(mut self) -> Self {
        self.retriever = None;
        self
    }

    /// What is done when nothing is found, whatever the dialect would do.
    pub(crate) fn when_nothing_found(mut self, what: WhenNothingFound) -> Self {
        self.answering.when_nothing_found = Some(what);
        self
    }

    /// Nobody listens where the embedder should be.
    pub(crate) fn without_embedder(mut self) -> Self {
        self.embedding_model = None;
        self
    }

    /// The embedder should be at this address.
    pub(crate) fn embedder_at(mut self, address: SocketAddr) -> Self {
        self.embedder_at = Some(address);
        self
    }

    /// Embeds with this model of the fake server.
    pub(crate) fn embedding_model(mut self, model: &str) -> Self {
        self.embedding_model = Some(model.to_owned());
        self
    }

    /// Lets every provider be silent for so long before its first token.
    pub(crate) fn first_token(mut self, patience: Duration) -> Self {
        self.first_token = patience;
        self
    }

    /// Gives every model a window of so many tokens.
    pub(crate) fn context_window(mut self, tokens: usize) -> Self {
        self.context_window = tokens;
        self
    }

    pub(crate) async fn start(self) -> World {
        let fake = FakeModel::start().await;
        let memory = Arc::new(MemoryStore::new(MemoryLimits { bytes: 1 << 28, sessions: 10_000 }));
        let journal = Arc::new(FailingJournal::new(memory.clone()));
        let (routes, embedder) = (self.routes(&fake).await, self.embedder(&fake).await);
        let catalog = Arc::new(FailingCatalog::new(Arc::new(SqliteCatalog::in_memory())));
        let knowledge = knowledge(catalog.clone(), embedder.clone());
        let ports = Ports {
            journal: journal.clone() as Arc<dyn Journal>,
            sessions: memory.clone(),
            history: memory,
            retriever: self.retriever.clone().unwrap_or_else(|| knowledge.retriever.clone()),
            clock: Arc::new(PausedClock::new()),
        };
        let engine = Engine::new(ports, routes, self.limits, self.answering);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("this machine has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (stop, stopped) = mpsc::unbounded_channel();
        let stopped = stream::unfold(stopped, async |mut words| words.recv().await.map(|word| (word, words)));
        let parts = ServerParts { engine, embedder, knowledge };
        let serving = tokio::spawn(server::serve(listener, parts, self.settings, stopped));
        World { address, fake, journal, catalog, stop, serving }
    }

    async fn embedder(&self, fake: &FakeModel) -> Arc<dyn Embedder> {
        let settings = HttpEmbedderSettings {
            name: "embedding".to_owned(),
            base_url: match (self.embedder_at, &self.embedding_model) {
                (Some(address), _) => format!("http://{address}"),
                (None, Some(_)) => fake.url().to_owned(),
                (None, None) => nobody().await,
            },
            model: self.embedding_model.clone().unwrap_or_else(|| "fake".to_owned()),
            api_key: None,
            connect: Duration::from_secs(5),
            proxy: None,
            dimension: None,
            token_limit: 512,
            batches: BatchLimits::default(),
            timeout: Duration::from_secs(5),
            retries: RetryLimits::default(),
        };
        Arc::new(RemoteEmbedder::ollama(settings).expect("a test's settings are valid"))
    }

    async fn routes(&self, fake: &FakeModel) -> Providers {
        let mut named: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
        for (name, member) in &self.providers {
            named.insert((*name).to_owned(), self.make(name, member, fake).await);
        }
        let order = |names: &[&str]| -> Arc<dyn Provider> {
            Arc::new(FallbackProvider::new(
                names.iter().map(|name| named[*name].clone()).collect(),
                self.first_token,
            ))
        };
        let all = self.providers.iter().map(|(name, _)| *name).collect();
        let mut routes = Providers::new(
            named.keys().map(|name| (name.clone(), order(&[name]))).collect(),
            order(self.order.as_ref().unwrap_or(&all)),
        );
        for (owner, names) in &self.owner_orders {
            routes = routes.owner_order(owner, order(names)).expect("a test's owner is a pattern");
        }
        routes
    }

    async fn make(&self, name: &str, member: &Member, fake: &FakeModel) -> Arc<dyn Provider> {
        let (kind, model, reachable) = match member {
            Member::Http { kind, model, reachable } => (*kind, model, *reachable),
            Member::Given(provider) => return provider.clone(),
        };
        let server = if reachable { fake.url().to_owned() } else { nobody().await };
        let settings = HttpProviderSettings {
            name: name.to_owned(),
            base_url: if kind == Kind::OpenAi { format!("{server}/v1") } else { server },
            model: Some(model.clone()),
            api_key: None,
            context_window: self.context_window,
            connect: Duration::from_secs(5),
            proxy: None,
        };
        match kind {
            Kind::Ollama => Arc::new(OllamaProvider::new(settings).expect("a test's settings are valid")),
            Kind::OpenAi => Arc::new(OpenAiProvider::new(settings).expect("a test's settings are valid")),
        }
    }
}

/// The real knowledge base, in memory.
fn knowledge(catalog: Arc<dyn Catalog>, embedder: Arc<dyn Embedder>) -> KnowledgeParts {
    let model = embedder.model().to_owned();
    let index: Arc<dyn Index> = Arc::new(EmbeddedIndex::in_memory(&model).expect("there is memory"));
    let published = Arc::new(IndexFollower::start(catalog.clone(), index.clone(), model));
    let ports = PipelinePorts {
        catalog: catalog.clone(),
        embedder: embedder.clone(),
        clock: Arc::new(PausedClock::new()),
        index_sync: Some(published.clone()),
    };
    let retriever = HybridRetriever::new(catalog.clone(), index, embedder, Fusion::Weighted);
    KnowledgeParts {
        catalog,
        ingest: Arc::new(Pipeline::new(ports, PipelineSettings::default())),
        retriever: Arc::new(retriever),
        index_sync: published,
    }
}

/// An address where nobody listens any more.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("this machine has a free port");
    format!("http://{}", listener.local_addr().expect("a bound listener has an address"))
}
