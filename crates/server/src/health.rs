//! How the parts of the server are: asked at most every two seconds, however often the server is asked, and not waited
//! for without end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dialects::health::{Overall, Part, State};
use domain::{Embedder, Failure, IndexSync, ProviderStatus};
use engine::Engine;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(2);

/// An index that is not up to its catalog within this time is behind it; shorter than anybody waits.
const CATCHING_UP: Duration = Duration::from_millis(200);

/// Who asks whether the server is ready waits no longer for anybody.
const AT_ONCE: Duration = Duration::from_millis(250);

/// Nor does who asks how all of it is, though they may be far away, or gone without a word.
const PATIENCE: Duration = Duration::from_secs(3);

/// Looks at the parts of the server.
pub(crate) struct Watch {
    embedder: Arc<dyn Embedder>,
    index: Arc<dyn IndexSync>,
    embedding: Look,
    indexed: Look,
    storage: Look,
}

impl Watch {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, index: Arc<dyn IndexSync>) -> Self {
        let (embedding, indexed, storage) = Default::default();
        Self { embedder, index, embedding, indexed, storage }
    }

    /// How the parts are that get ready after the server does. Whoever asks is an orchestrator, which does not wait.
    pub(crate) async fn look_at_readiness(&self, engine: &Engine) -> BTreeMap<String, Part> {
        self.look(engine, AT_ONCE).await
    }

    /// How every part is, and what that makes of the whole. It is not healthy without storage, nor without anybody
    /// who answers where nobody is named.
    pub(crate) async fn look_at_all(&self, engine: &Engine) -> (Overall, BTreeMap<String, Part>) {
        let storage = self.storage.fresh(PATIENCE, storage(engine.clone()));
        let (mut parts, storage, order) =
            tokio::join!(self.look(engine, PATIENCE), storage, order(engine, PATIENCE));
        let is_down = |part: &Part| matches!(part.state, State::Down(_));
        let unhealthy = is_down(&order) || is_down(&storage) || engine.is_stopping();
        parts.insert("storage".to_owned(), storage);
        let overall = match parts.values().all(|part| matches!(part.state, State::Up)) {
            _ if unhealthy => Overall::Unhealthy,
            true => Overall::Healthy,
            false => Overall::Degraded,
        };
        (overall, parts)
    }

    /// How those are that a server can do without for a while, and those that answer.
    async fn look(&self, engine: &Engine, patience: Duration) -> BTreeMap<String, Part> {
        let embedding = self.embedding.fresh(patience, embedding(self.embedder.clone()));
        let index = self.indexed.fresh(patience, index(self.index.clone()));
        let (embedding, index, providers) = tokio::join!(embedding, index, providers(engine, patience));
        let named = [("embedding", embedding), ("index", index)].map(|(name, part)| (name.to_owned(), part));
        named.into_iter().chain(providers).collect()
    }
}

async fn embedding(embedder: Arc<dyn Embedder>) -> State {
    match embedder.health().await {
        Ok(()) => State::Up,
        Err(failure) => State::Degraded(failure.message),
    }
}

async fn index(index: Arc<dyn IndexSync>) -> State {
    match timeout(CATCHING_UP, index.wait_until_searchable()).await {
        Ok(Ok(())) => State::Up,
        Ok(Err(error)) => State::Degraded(error.to_string()),
        Err(_) => State::Degraded("the index is still taking in documents: not all are found yet".to_owned()),
    }
}

async fn storage(engine: Engine) -> State {
    match engine.storage_health().await {
        Ok(()) => State::Up,
        Err(error) => State::Down(error.to_string()),
    }
}

async fn order(engine: &Engine, patience: Duration) -> Part {
    let told = timeout(patience, engine.default_order_health()).await;
    told.map_or_else(|_| late(), |(health, standing)| provider(health, &standing))
}

/// What the names of those that answer begin with.
const PROVIDERS: &str = "providers.";

async fn providers(engine: &Engine, patience: Duration) -> Vec<(String, Part)> {
    let mut told = timeout(patience, engine.provider_health()).await.unwrap_or_default();
    let parts = engine.provider_statuses().into_iter().map(|(name, standing)| {
        // Where one of them takes its time, what is known of the others is told all the same.
        let health = told.remove(&name).or_else(|| standing.health.clone());
        (format!("{PROVIDERS}{name}"), health.map_or_else(late, |health| provider(health, &standing)))
    });
    parts.collect()
}

/// A provider that says when to ask again is on its way: its model loads. One that is left alone answers nobody, though
/// it is known when it will be asked again.
fn provider(health: Result<(), Failure>, standing: &ProviderStatus) -> Part {
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

/// What was seen of a part, and the look at it that is not over yet. That goes on when whoever wanted it has waited long
/// enough, for the next one who asks.
#[derive(Default)]
struct Look {
    seen: Mutex<Option<(Instant, Part)>>,
    going_on: tokio::sync::Mutex<Option<AbortOnDropHandle<Part>>>,
}

impl Look {
    /// What was seen last, if that is fresh; else what is seen now, or what was seen last after all if that takes too
    /// long.
    async fn fresh(&self, patience: Duration, state: impl Future<Output = State> + Send + 'static) -> Part {
        let seen = timeout(patience, self.look(state)).await;
        seen.unwrap_or_else(|_| self.seen().map_or_else(late, |(_, seen)| seen))
    }

    /// One look at a time.
    async fn look(&self, state: impl Future<Output = State> + Send + 'static) -> Part {
        let mut going_on = self.going_on.lock().await;
        if let Some((_, seen)) = self.seen().filter(|(at, _)| at.elapsed() < FRESH) {
            return seen;
        }
        let look = going_on.get_or_insert_with(|| AbortOnDropHandle::new(tokio::spawn(timed(state))));
        let seen = look.await.unwrap_or_else(|panic| Part {
            state: State::Down(format!("it cannot be looked at: {panic}")),
            latency: None,
        });
        *going_on = None;
        *lock(&self.seen) = Some((Instant::now(), seen.clone()));
        seen
    }

    fn seen(&self) -> Option<(Instant, Part)> {
        lock(&self.seen).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn timed(look: impl Future<Output = State>) -> Part {
    let began = Instant::now();
    let state = look.await;
    Part { state, latency: Some(began.elapsed()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_look_that_takes_long_is_told_to_the_next_one_who_asks() {
        let (look, looks) = (Look::default(), Arc::new(AtomicUsize::new(0)));
        let slow = || {
            let looks = looks.clone();
            async move {
                looks.fetch_add(1, Ordering::Relaxed);
                sleep(2 * AT_ONCE).await;
                State::Up
            }
        };
        assert!(matches!(look.fresh(AT_ONCE, slow()).await.state, State::Degraded(_)));
        let seen = look.fresh(2 * AT_ONCE, slow()).await;
        assert!(matches!(seen.state, State::Up) && seen.latency == Some(2 * AT_ONCE), "{seen:?}");
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        // Later it is what was seen last, while somebody looks again.
        sleep(FRESH).await;
        assert!(matches!(look.fresh(AT_ONCE, slow()).await.state, State::Up));
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_long_for_a_look_holds_nobody_up_who_does_not() {
        let look = Look::default();
        let patient = look.fresh(PATIENCE, async { std::future::pending().await });
        let began = Instant::now();
        let (_, at_once) = tokio::join!(patient, async {
            let part = look.fresh(AT_ONCE, async { State::Up }).await;
            (part, began.elapsed())
        });
        assert!(matches!(at_once.0.state, State::Degraded(_)) && at_once.1 <= 2 * AT_ONCE, "{at_once:?}");
    }
}
