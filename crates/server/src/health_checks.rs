//! Health checks of the server's dependencies. A result is reused for two seconds, however often it is asked
//! for, and no caller waits longer than its own timeout.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dialects::health::{OverallHealth, ServiceHealth, ServiceState};
use domain::{Embedder, Failure, IndexSync, ProviderStatus};
use engine::Engine;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

/// How long a result is reused.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// An index that has not caught up with its catalog within this time is reported as behind. Shorter than any
/// caller's timeout.
const INDEX_TIMEOUT: Duration = Duration::from_millis(200);

/// How long a readiness check waits: orchestrators expect a response at once.
const READINESS_TIMEOUT: Duration = Duration::from_millis(250);

/// How long the full health check waits, for dependencies that are remote or do not respond.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

/// Checks the server's dependencies.
pub(crate) struct HealthChecks {
    embedder: Arc<dyn Embedder>,
    index_sync: Arc<dyn IndexSync>,
    embedding: CachedCheck,
    index: CachedCheck,
    storage: CachedCheck,
}

impl HealthChecks {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, index_sync: Arc<dyn IndexSync>) -> Self {
        let (embedding, index, storage) = Default::default();
        Self { embedder, index_sync, embedding, index, storage }
    }

    /// Checks what may become ready after the server does: embedder, index, providers.
    pub(crate) async fn check_readiness(&self, engine: &Engine) -> BTreeMap<String, ServiceHealth> {
        self.check(engine, READINESS_TIMEOUT).await
    }

    /// Checks every dependency. The server as a whole is unhealthy without storage, without any provider in
    /// the default order that answers, and while it stops.
    pub(crate) async fn check_all(
        &self,
        engine: &Engine,
    ) -> (OverallHealth, BTreeMap<String, ServiceHealth>) {
        let storage = self.storage.get(HEALTH_TIMEOUT, check_storage(engine.clone()));
        let (mut parts, storage, order) =
            tokio::join!(self.check(engine, HEALTH_TIMEOUT), storage, check_order(engine, HEALTH_TIMEOUT));
        let is_down = |part: &ServiceHealth| matches!(part.state, ServiceState::Down(_));
        let unhealthy = is_down(&order) || is_down(&storage) || engine.is_stopping();
        parts.insert("storage".to_owned(), storage);
        let overall = match parts.values().all(|part| matches!(part.state, ServiceState::Up)) {
            _ if unhealthy => OverallHealth::Unhealthy,
            true => OverallHealth::Healthy,
            false => OverallHealth::Degraded,
        };
        (overall, parts)
    }

    async fn check(&self, engine: &Engine, limit: Duration) -> BTreeMap<String, ServiceHealth> {
        let embedding = self.embedding.get(limit, check_embedding(self.embedder.clone()));
        let index = self.index.get(limit, check_index(self.index_sync.clone()));
        let (embedding, index, providers) = tokio::join!(embedding, index, check_providers(engine, limit));
        let named = [("embedding", embedding), ("index", index)].map(|(name, part)| (name.to_owned(), part));
        named.into_iter().chain(providers).collect()
    }
}

async fn check_embedding(embedder: Arc<dyn Embedder>) -> ServiceState {
    match embedder.health().await {
        Ok(()) => ServiceState::Up,
        Err(failure) => ServiceState::Degraded(failure.message),
    }
}

async fn check_index(index_sync: Arc<dyn IndexSync>) -> ServiceState {
    match timeout(INDEX_TIMEOUT, index_sync.wait_until_searchable()).await {
        Ok(Ok(())) => ServiceState::Up,
        Ok(Err(error)) => ServiceState::Degraded(error.to_string()),
        Err(_) => ServiceState::Degraded(
            "the index is behind the catalog: not every document is found yet".to_owned(),
        ),
    }
}

async fn check_storage(engine: Engine) -> ServiceState {
    match engine.storage_health().await {
        Ok(()) => ServiceState::Up,
        Err(error) => ServiceState::Down(error.to_string()),
    }
}

async fn check_order(engine: &Engine, limit: Duration) -> ServiceHealth {
    let checked = timeout(limit, engine.default_order_health()).await;
    checked.map_or_else(|_| pending(), |(health, status)| provider_part(health, &status))
}

/// What the names of providers begin with.
const PROVIDERS: &str = "providers.";

async fn check_providers(engine: &Engine, limit: Duration) -> Vec<(String, ServiceHealth)> {
    let mut checked = timeout(limit, engine.provider_health()).await.unwrap_or_default();
    let parts = engine.provider_statuses().into_iter().map(|(name, status)| {
        // A provider that is slow to respond does not hide what is known of the others.
        let health = checked.remove(&name).or_else(|| status.health.clone());
        let part = health.map_or_else(pending, |health| provider_part(health, &status));
        (format!("{PROVIDERS}{name}"), part)
    });
    parts.collect()
}

/// A failing provider that names a time to retry is degraded: it is loading its model. One that its breaker
/// skips is down, although the time of the next call is known.
fn provider_part(health: Result<(), Failure>, status: &ProviderStatus) -> ServiceHealth {
    let state = match (health, status.skipped_for) {
        (Ok(()), None) => ServiceState::Up,
        (Ok(()), Some(wait)) => {
            ServiceState::Down(format!("it is skipped for another {} s", wait.as_secs_f64().ceil()))
        }
        (Err(Failure { message, retry_after: Some(_), .. }), None) => ServiceState::Degraded(message),
        (Err(Failure { message, .. }), _) => ServiceState::Down(message),
    };
    ServiceHealth { state, latency: None }
}

/// A check that has not completed within its caller's timeout and never did before.
fn pending() -> ServiceHealth {
    ServiceHealth {
        state: ServiceState::Degraded("its health check has not completed yet".to_owned()),
        latency: None,
    }
}

/// The last result of a check, and the one that is running. A check goes on after its caller's timeout, for
/// the next caller.
#[derive(Default)]
struct CachedCheck {
    last: Mutex<Option<(Instant, ServiceHealth)>>,
    running: tokio::sync::Mutex<Option<AbortOnDropHandle<ServiceHealth>>>,
}

impl CachedCheck {
    /// The last result if it is fresh, else a new one; the last one after all where the check exceeds the
    /// limit.
    async fn get(
        &self,
        limit: Duration,
        check: impl Future<Output = ServiceState> + Send + 'static,
    ) -> ServiceHealth {
        let checked = timeout(limit, self.run(check)).await;
        checked.unwrap_or_else(|_| self.last().map_or_else(pending, |(_, part)| part))
    }

    /// Runs one check at a time; later callers wait for the running one.
    async fn run(&self, check: impl Future<Output = ServiceState> + Send + 'static) -> ServiceHealth {
        let mut running = self.running.lock().await;
        if let Some((_, part)) = self.last().filter(|(at, _)| at.elapsed() < FRESH_FOR) {
            return part;
        }
        let task = running.get_or_insert_with(|| AbortOnDropHandle::new(tokio::spawn(timed(check))));
        let part = task.await.unwrap_or_else(|panic| ServiceHealth {
            state: ServiceState::Down(format!("its health check failed: {panic}")),
            latency: None,
        });
        *running = None;
        *lock(&self.last) = Some((Instant::now(), part.clone()));
        part
    }

    fn last(&self) -> Option<(Instant, ServiceHealth)> {
        lock(&self.last).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn timed(check: impl Future<Output = ServiceState>) -> ServiceHealth {
    let began = Instant::now();
    let state = check.await;
    ServiceHealth { state, latency: Some(began.elapsed()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_check_completes_for_the_next_caller() {
        let (cached, checks) = (CachedCheck::default(), Arc::new(AtomicUsize::new(0)));
        let slow = || {
            let checks = checks.clone();
            async move {
                checks.fetch_add(1, Ordering::Relaxed);
                sleep(2 * READINESS_TIMEOUT).await;
                ServiceState::Up
            }
        };
        assert!(matches!(cached.get(READINESS_TIMEOUT, slow()).await.state, ServiceState::Degraded(_)));
        let part = cached.get(2 * READINESS_TIMEOUT, slow()).await;
        assert!(
            matches!(part.state, ServiceState::Up) && part.latency == Some(2 * READINESS_TIMEOUT),
            "{part:?}"
        );
        assert_eq!(checks.load(Ordering::Relaxed), 1);
        // Once it is stale, the last result is returned while the next check runs.
        sleep(FRESH_FOR).await;
        assert!(matches!(cached.get(READINESS_TIMEOUT, slow()).await.state, ServiceState::Up));
        assert_eq!(checks.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_waits_long_does_not_delay_one_that_does_not() {
        let cached = CachedCheck::default();
        let patient = cached.get(HEALTH_TIMEOUT, async { std::future::pending().await });
        let began = Instant::now();
        let (_, (part, after)) = tokio::join!(patient, async {
            let part = cached.get(READINESS_TIMEOUT, async { ServiceState::Up }).await;
            (part, began.elapsed())
        });
        assert!(
            matches!(part.state, ServiceState::Degraded(_)) && after <= 2 * READINESS_TIMEOUT,
            "{part:?} {after:?}"
        );
    }
}
