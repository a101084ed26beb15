//! Health checks: repeats a provider's health check in the background and answers from the last result.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, Provider, ProviderStatus};
use tokio::time::{Instant, sleep};

/// Shortest pause between two checks. A provider whose model is loading asks for short pauses.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// A provider whose health is known without calling it.
pub struct HealthCheckedProvider {
    provider: Arc<dyn Provider>,
    interval: Duration,
    last: Mutex<Option<HealthCheck>>,
    /// Held during a check, so that concurrent callers wait for its result instead of starting their own.
    checking: tokio::sync::Mutex<()>,
}

/// The result of one check.
#[derive(Clone)]
struct HealthCheck {
    at: Instant,
    health: Result<(), Failure>,
}

impl HealthCheckedProvider {
    /// Wraps a provider. It is checked when its health is first asked for, and every `interval` while
    /// [`run_checks`](Self::run_checks) runs.
    pub fn new(provider: Arc<dyn Provider>, interval: Duration) -> Self {
        Self { provider, interval, last: Mutex::default(), checking: tokio::sync::Mutex::default() }
    }

    /// Checks the provider again and again; never returns. The provider itself bounds the time of one check.
    pub async fn run_checks(&self) {
        loop {
            let health = {
                let _checking = self.checking.lock().await;
                self.check().await
            };
            let retry_after = health.err().and_then(|failure| failure.retry_after);
            sleep(retry_after.map_or(self.interval, |pause| pause.max(MIN_PAUSE).min(self.interval))).await;
        }
    }

    async fn check(&self) -> Result<(), Failure> {
        let health = self.provider.health().await;
        let check = HealthCheck { at: Instant::now(), health: health.clone() };
        let before = self.last().replace(check).map(|check| check.health);
        let provider = &self.provider.model().provider;
        match (before, &health) {
            (Some(Ok(())), Err(reason)) => tracing::warn!(%provider, %reason, "a provider went down"),
            (Some(Err(_)), Ok(())) => tracing::info!(%provider, "a provider came up"),
            _ => {}
        }
        health
    }

    /// The last result, unless it is older than two intervals: then no background checks run.
    fn fresh(&self) -> Option<Result<(), Failure>> {
        let last = self.last();
        let check = last.as_ref().filter(|check| check.at.elapsed() <= 2 * self.interval)?;
        Some(check.health.clone())
    }

    fn last(&self) -> MutexGuard<'_, Option<HealthCheck>> {
        self.last.lock().expect("nothing can panic while a result is copied")
    }
}

#[async_trait]
impl domain::ProviderDecorator for HealthCheckedProvider {
    fn inner(&self) -> &dyn Provider {
        &*self.provider
    }

    async fn health(&self) -> Result<(), Failure> {
        if let Some(health) = self.fresh() {
            return health;
        }
        let _checking = self.checking.lock().await;
        match self.fresh() {
            Some(health) => health,
            None => self.check().await,
        }
    }

    fn status(&self) -> ProviderStatus {
        ProviderStatus {
            health: self.last().as_ref().map(|check| check.health.clone()),
            ..self.provider.status()
        }
    }
}

#[cfg(test)]
mod tests;
