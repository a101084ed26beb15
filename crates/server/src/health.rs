//! How the parts of the server are: asked at most every two seconds, however often the server is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dialects::health::{Overall, Part, State};
use domain::{Embedder, Failure, Published, StorageError};
use engine::Engine;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(2);

/// An index that is not up to its catalog within this time is behind it.
const CATCHING_UP: Duration = Duration::from_millis(250);

/// Who asks whether the server is ready waits no longer for its providers.
const AT_ONCE: Duration = Duration::from_millis(250);

/// What a server can do without for a while: whether texts can be embedded now, and all documents found.
#[derive(Clone)]
pub(crate) struct Health {
    pub(crate) embedding: Part,
    pub(crate) index: Part,
}

pub(crate) struct Watch {
    embedder: Arc<dyn Embedder>,
    index: Arc<dyn Published>,
    last: Mutex<Option<(Instant, Health)>>,
    storage: Mutex<Option<(Instant, Part)>>,
}

impl Watch {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, index: Arc<dyn Published>) -> Self {
        Self { embedder, index, last: Mutex::default(), storage: Mutex::default() }
    }

    /// How they are; one look at a time.
    pub(crate) async fn look(&self) -> Health {
        fresh(&self.last, async {
            let (embedding, index) = tokio::join!(timed(self.embedding()), timed(self.index()));
            Health { embedding, index }
        })
        .await
    }

    /// How the parts are that get ready after the server does. Whoever asks is an orchestrator, which does not wait:
    /// providers that take their time are told as such.
    pub(crate) async fn look_at_readiness(&self, engine: &Engine) -> BTreeMap<String, Part> {
        let (health, providers) = tokio::join!(self.look(), timeout(AT_ONCE, engine.provider_health()));
        let mut parts = named(health);
        match providers {
            Ok(providers) => parts.extend(providers.into_iter().map(provider)),
            Err(_) => {
                let late = "they have not told yet how they are: GET /health waits for them".to_owned();
                parts.insert("providers".to_owned(), Part { state: State::Degraded(late), latency: None });
            }
        }
        parts
    }

    /// How every part is, and what that makes of the whole. It is not healthy without storage, nor without anybody
    /// who answers.
    pub(crate) async fn look_at_all(&self, engine: &Engine) -> (Overall, BTreeMap<String, Part>) {
        let storage = fresh(&self.storage, timed(storage(engine)));
        let (health, storage, providers) = tokio::join!(self.look(), storage, engine.provider_health());
        let providers: Vec<_> = providers.into_iter().map(provider).collect();
        let is_down = |part: &Part| matches!(part.state, State::Down(_));
        let unanswered = providers.iter().all(|(_, part)| is_down(part));
        let unhealthy = unanswered || is_down(&storage) || engine.is_stopping();
        let mut parts = named(health);
        parts.insert("storage".to_owned(), storage);
        parts.extend(providers);
        let overall = match parts.values().all(|part| matches!(part.state, State::Up)) {
            _ if unhealthy => Overall::Unhealthy,
            true => Overall::Healthy,
            false => Overall::Degraded,
        };
        (overall, parts)
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

fn named(Health { embedding, index }: Health) -> BTreeMap<String, Part> {
    BTreeMap::from([("embedding".to_owned(), embedding), ("index".to_owned(), index)])
}

/// A provider that says when to ask again is on its way: its model loads.
fn provider((name, health): (String, Result<(), Failure>)) -> (String, Part) {
    let state = match health {
        Ok(()) => State::Up,
        Err(Failure { message, retry_after: Some(_), .. }) => State::Degraded(message),
        Err(Failure { message, .. }) => State::Down(message),
    };
    (format!("providers.{name}"), Part { state, latency: None })
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
