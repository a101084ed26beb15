//! Builds a test server: the real engine, storage and providers, over a fake model server, on a free port.

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
use retrieval::{Fusion, HybridRetriever, IndexFollower};
use server::{ConnectionLimits, KnowledgeParts, ServerParts, ServerSettings};
use testing::{FailingCatalog, FailingJournal, FakeModel, PausedClock, ScriptedRetriever};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;

use crate::support::storage::TestStorage;
use crate::support::test_server::TestServer;

pub(crate) const PROVIDER_KINDS: [ProviderKind; 2] = [ProviderKind::Ollama, ProviderKind::OpenAi];

/// The API of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProviderKind {
    Ollama,
    OpenAi,
}

/// A test server before its start, with the default settings of the contract.
pub(crate) struct TestServerBuilder {
    limits: Limits,
    first_token: Duration,
    context_window: usize,
    settings: ServerSettings,
    /// `None` where the embedder is unreachable.
    embedding_model: Option<String>,
    /// The address of the embedder, if it is not the fake model server.
    embedder_at: Option<SocketAddr>,
    /// `None` where passages are retrieved from the ingested documents.
    retriever: Option<Arc<dyn Retriever>>,
    answering: AnswerSettings,
    providers: Vec<(&'static str, TestProvider)>,
    order: Option<Vec<&'static str>>,
    owner_orders: Vec<(&'static str, Vec<&'static str>)>,
}

enum TestProvider {
    Http { kind: ProviderKind, model: String, reachable: bool },
    Custom(Arc<dyn Provider>),
}

impl TestServerBuilder {
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

    /// A server whose one provider, `local`, has this fake model.
    pub(crate) fn with_model(model: &str) -> Self {
        Self::new().provider("local", ProviderKind::Ollama, model)
    }

    /// Appends a provider to the default order.
    pub(crate) fn provider(mut self, name: &'static str, kind: ProviderKind, model: &str) -> Self {
        self.providers.push((name, TestProvider::Http { kind, model: model.to_owned(), reachable: true }));
        self
    }

    /// Appends a provider at an address that refuses connections.
    pub(crate) fn unreachable_provider(mut self, name: &'static str, kind: ProviderKind) -> Self {
        self.providers.push((name, TestProvider::Http { kind, model: "fake".to_owned(), reachable: false }));
        self
    }

    /// Appends a provider that the test has built.
    pub(crate) fn custom_provider(mut self, name: &'static str, provider: impl Provider + 'static) -> Self {
        self.providers.push((name, TestProvider::Custom(Arc::new(provider))));
        self
    }

    /// Sets the default order, instead of all providers.
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

    /// Retrieves passages with this retriever.
    pub(crate) fn retriever(mut self, retriever: impl Retriever + 'static) -> Self {
        self.retriever = Some(Arc::new(retriever));
        self
    }

    /// Retrieves passages from the ingested documents.
    pub(crate) fn with_document_retrieval(mut self) -> Self {
        self.retriever = None;
        self
    }

    /// Overrides what the dialect does without passages.
    pub(crate) fn when_nothing_found(mut self, policy: WhenNothingFound) -> Self {
        self.answering.when_nothing_found = Some(policy);
        self
    }

    /// Makes the embedder unreachable.
    pub(crate) fn without_embedder(mut self) -> Self {
        self.embedding_model = None;
        self
    }

    /// Connects to an embedder at this address.
    pub(crate) fn embedder_at(mut self, address: SocketAddr) -> Self {
        self.embedder_at = Some(address);
        self
    }

    /// Embeds with this model of the fake model server.
    pub(crate) fn embedding_model(mut self, model: &str) -> Self {
        self.embedding_model = Some(model.to_owned());
        self
    }

    /// Sets the first-token timeout of every provider.
    pub(crate) fn first_token(mut self, timeout: Duration) -> Self {
        self.first_token = timeout;
        self
    }

    /// Sets the context window of every model.
    pub(crate) fn context_window(mut self, tokens: usize) -> Self {
        self.context_window = tokens;
        self
    }

    pub(crate) async fn start(self) -> TestServer {
        let fake = FakeModel::start().await;
        let (providers, embedder) = (self.providers(&fake), self.embedder(&fake));
        let storage = TestStorage::open(embedder.model());
        let journal = Arc::new(FailingJournal::new(storage.journal));
        let catalog = Arc::new(FailingCatalog::new(storage.catalog));
        let knowledge = knowledge(catalog.clone(), storage.index, embedder.clone());
        let ports = Ports {
            journal: journal.clone() as Arc<dyn Journal>,
            sessions: storage.sessions,
            history: storage.history,
            retriever: self.retriever.clone().unwrap_or_else(|| knowledge.retriever.clone()),
            clock: Arc::new(PausedClock::new()),
        };
        let engine = Engine::new(ports, providers, self.limits, self.answering);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("this machine has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (stop, stopped) = mpsc::unbounded_channel();
        let stopped =
            stream::unfold(stopped, async |mut signals| signals.recv().await.map(|signal| (signal, signals)));
        let parts = ServerParts { engine, embedder, knowledge };
        let serving = tokio::spawn(server::serve(listener, parts, self.settings, stopped));
        TestServer { address, fake, journal, catalog, stop, serving, folder: storage.folder }
    }

    fn embedder(&self, fake: &FakeModel) -> Arc<dyn Embedder> {
        let settings = HttpEmbedderSettings {
            name: "embedding".to_owned(),
            base_url: match (self.embedder_at, &self.embedding_model) {
                (Some(address), _) => format!("http://{address}"),
                (None, Some(_)) => fake.url().to_owned(),
                (None, None) => refusing_address(),
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

    fn providers(&self, fake: &FakeModel) -> Providers {
        let mut named: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
        for (name, provider) in &self.providers {
            named.insert((*name).to_owned(), self.connect(name, provider, fake));
        }
        let order = |names: &[&str]| -> Arc<dyn Provider> {
            Arc::new(FallbackProvider::new(
                names.iter().map(|name| named[*name].clone()).collect(),
                self.first_token,
            ))
        };
        let all = self.providers.iter().map(|(name, _)| *name).collect();
        let mut providers = Providers::new(
            named.keys().map(|name| (name.clone(), order(&[name]))).collect(),
            order(self.order.as_ref().unwrap_or(&all)),
        );
        for (owner, names) in &self.owner_orders {
            providers = providers.owner_order(owner, order(names)).expect("a test's owner is a pattern");
        }
        providers
    }

    fn connect(&self, name: &str, provider: &TestProvider, fake: &FakeModel) -> Arc<dyn Provider> {
        let (kind, model, reachable) = match provider {
            TestProvider::Http { kind, model, reachable } => (*kind, model, *reachable),
            TestProvider::Custom(provider) => return provider.clone(),
        };
        let server = if reachable { fake.url().to_owned() } else { refusing_address() };
        let settings = HttpProviderSettings {
            name: name.to_owned(),
            base_url: if kind == ProviderKind::OpenAi { format!("{server}/v1") } else { server },
            model: Some(model.clone()),
            api_key: None,
            context_window: self.context_window,
            connect: Duration::from_secs(5),
            proxy: None,
        };
        match kind {
            ProviderKind::Ollama => {
                Arc::new(OllamaProvider::new(settings).expect("a test's settings are valid"))
            }
            ProviderKind::OpenAi => {
                Arc::new(OpenAiProvider::new(settings).expect("a test's settings are valid"))
            }
        }
    }
}

/// The knowledge base as the binary wires it.
fn knowledge(
    catalog: Arc<dyn Catalog>,
    index: Arc<dyn Index>,
    embedder: Arc<dyn Embedder>,
) -> KnowledgeParts {
    let follower = Arc::new(IndexFollower::start(catalog.clone(), index.clone(), embedder.model()));
    let ports = PipelinePorts {
        catalog: catalog.clone(),
        embedder: embedder.clone(),
        clock: Arc::new(PausedClock::new()),
        index_sync: Some(follower.clone()),
    };
    let retriever = HybridRetriever::new(catalog.clone(), index, embedder, Fusion::Weighted)
        .with_index_sync(follower.clone(), Duration::from_millis(100));
    KnowledgeParts {
        catalog,
        ingest: Arc::new(Pipeline::new(ports, PipelineSettings::default())),
        retriever: Arc::new(retriever),
        index_sync: follower,
    }
}

/// The URL of an address that refuses connections. Its port stays bound, without listening, as long as the
/// process runs, so that no other test gets it.
fn refusing_address() -> String {
    let socket = TcpSocket::new_v4().expect("a socket can be made");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("this machine has a free port");
    let address = socket.local_addr().expect("a bound socket has an address");
    Box::leak(Box::new(socket));
    format!("http://{address}")
}
