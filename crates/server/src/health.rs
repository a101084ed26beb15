//! How the parts of the server are: asked at most every two seconds, however often the server is asked, and not waited
//! for without end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dialects::health::{Overall, Part, State};
use domain::{Embedder, Failure, Published, Standing, StorageError};
use engine::Engine;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(2);

/// An index that is not up to its catalog within this time is behind it.
const CATCHING_UP: Duration = Duration::from_millis(250);

/// Who asks whether the server is ready waits no longer for anybody.
const AT_ONCE: Duration = Duration::from_millis(250);

/// Nor does who asks how all of it is, though they may be far away, or gone without a word.
const PATIENCE: Duration = Duration::from_secs(3);

/// Looks at the parts of the server.
pub(crate) struct Watch {
    embedder: Arc<dyn Embedder>,
    index: Arc<dyn Published>,
    /// What was seen last of each, and when.
    embedding: Mutex<Option<(Instant, Part)>>,
    indexed: Mutex<Option<(Instant, Part)>>,
    storage: Mutex<Option<(Instant, Part)>>,
}

impl Watch {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, index: Arc<dyn Published>) -> Self {
        let (embedding, indexed, storage) = Default::default();
        Self { embedder, index, embedding, indexed, storage }
    }

    /// How the parts are that get ready after the server does. Whoever asks is an orchestrator, which does not wait.
    pub(crate) async fn look_at_readiness(&self, engine: &Engine) -> BTreeMap<String, Part> {
        self.look(engine, AT_ONCE).await
    }

    /// How every part is, and what that makes of the whole. It is not healthy without storage, nor without anybody
    /// who answers.
    pub(crate) async fn look_at_all(&self, engine: &Engine) -> (Overall, BTreeMap<String, Part>) {
        let storage = fresh(&self.storage, timed(storage(engine)));
        let (mut parts, storage) = tokio::join!(self.look(engine, PATIENCE), storage);
        let is_down = |part: &Part| matches!(part.state, State::Down(_));
        let mut providers = parts.iter().filter(|(name, _)| name.starts_with(PROVIDERS));
        let unanswered = providers.all(|(_, part)| is_down(part));
        let unhealthy = unanswered || is_down(&storage) || engine.is_stopping();
        parts.insert("storage".to_owned(), storage);
        let overall = match parts.values().all(|part| matches!(part.state, State::Up)) {
            _ if unhealthy => Overall::Unhealthy,
            true => Overall::Healthy,
            false => Overall::Degraded,
        };
        (overall, parts)
    }

    /// How those are that a server can do without for a while, and those that answer; one look at each at a time.
    async fn look(&self, engine: &Engine, patience: Duration) -> BTreeMap<String, Part> {
        let embedding = fresh(&self.embedding, timed(self.embedding()));
        let embedding = async { timeout(patience, embedding).await.unwrap_or_else(|_| late()) };
        let index = fresh(&self.indexed, timed(self.index()));
        let (embedding, index, providers) = tokio::join!(embedding, index, providers(engine, patience));
        let named = [("embedding", embedding), ("index", index)].map(|(name, part)| (name.to_owned(), part));
        named.into_iter().chain(providers).collect()
    }

    async fn embedding(&self) -> State {
        match self.embedder.health().await {
            Ok(()) => State::Up,
            Err(failure) => State::Degraded(failure.message),
        }
    }

    async fn index(&self) -> State {
        match timeout(CATCHING_UP, self.index.published()).await {
            Ok(Ok(())) => State::Up,
            Ok(Err(StorageError(reason))) => State::Degraded(reason),
            Err(_) => {
                State::Degraded("the index is still taking in documents: not all are found yet".to_owned())
            }
        }
    }
}

async fn storage(engine: &Engine) -> State {
    match engine.storage_health().await {
        Ok(()) => State::Up,
        Err(StorageError(reason)) => State::Down(reason),
    }
}

/// What the names of those that answer begin with.
const PROVIDERS: &str = "providers.";

async fn providers(engine: &Engine, patience: Duration) -> Vec<(String, Part)> {
    let mut told = timeout(patience, engine.provider_health()).await.unwrap_or_default();
    let parts = engine.provider_standings().into_iter().map(|(name, standing)| {
        // Where one of them takes its time, what is known of the others is told all the same.
        let health = told.remove(&name).or_else(|| standing.health.clone());
        (format!("{PROVIDERS}{name}"), health.map_or_else(late, |health| provider(health, &standing)))
    });
    parts.collect()
}

/// A provider that says when to ask again is on its way: its model loads. One that is left alone answers nobody, though
/// it is known when it will be asked again.
fn provider(health: Result<(), Failure>, standing: &Standing) -> Part {
    let state = match (health, standing.skipped_for) {
        (Ok(()), None) => State::Up,
        (Ok(()), Some(wait)) => {
            State::Down(format!("it is not asked for another {} s", wait.as_secs_f64().ceil()))
        }
        (Err(Failure { message, retry_after: Some(_), .. }), None) => State::Degraded(message),
        (Err(Failure { message, .. }), _) => State::Down(message),
    };
    Part { state, latency: None }
}

/// A part that takes its time.
fn late() -> Part {
    Part { state: State::Degraded("it has not told yet how it is".to_owned()), latency: None }
}

/// What was seen last, if that is fresh; else what is seen now.
async fn fresh<T: Clone>(last: &Mutex<Option<(Instant, T)>>, look: impl Future<Output = T>) -> T {
    let mut last = last.lock().await;
    if let Some((_, seen)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
        return seen.clone();
    }
    let seen = look.await;
    *last = Some((Instant::now(), seen.clone()));
    seen
}

async fn timed(look: impl Future<Output = State>) -> Part {
    let began = Instant::now();
    let state = look.await;
    Part { state, latency: Some(began.elapsed()) }
}
