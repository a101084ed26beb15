//! A provider that is looked at from time to time, so that whoever wants to know how it is need not wait.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, ModelId, ModelStream, Provider, ProviderStatus, Request};
use tokio::time::{Instant, sleep};

/// A model that loads asks to be looked at again soon; no sooner than this.
const SOONEST: Duration = Duration::from_secs(1);

/// A provider over a provider: knows how it is.
pub struct Watched {
    provider: Arc<dyn Provider>,
    every: Duration,
    last: Mutex<Option<Look>>,
    /// Held while somebody looks, so that others wait for what they see.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Look {
    at: Instant,
    health: Result<(), Failure>,
}

impl Watched {
    /// Looks when it is first asked, and again and again while `keep_looking` runs.
    pub fn new(provider: Arc<dyn Provider>, every: Duration) -> Self {
        Self { provider, every, last: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    /// Looks from time to time, for good. A look is bounded in time by the provider itself.
    pub async fn keep_looking(&self) {
        loop {
            let health = {
                let _looking = self.looking.lock().await;
                self.look().await
            };
            let soon = health.err().and_then(|failure| failure.retry_after);
            sleep(soon.map_or(self.every, |soon| soon.max(SOONEST).min(self.every))).await;
        }
    }

    async fn look(&self) -> Result<(), Failure> {
        let health = self.provider.health().await;
        let look = Look { at: Instant::now(), health: health.clone() };
        let before = self.last().replace(look).map(|look| look.health);
        let provider = &self.provider.model().provider;
        match (before, &health) {
            (Some(Ok(())), Err(reason)) => tracing::warn!(%provider, %reason, "a provider went down"),
            (Some(Err(_)), Ok(())) => tracing::info!(%provider, "a provider came up"),
            _ => {}
        }
        health
    }

    /// What was seen last, unless nobody keeps looking.
    fn fresh(&self) -> Option<Result<(), Failure>> {
        let last = self.last();
        let look = last.as_ref().filter(|look| look.at.elapsed() <= 2 * self.every)?;
        Some(look.health.clone())
    }

    fn last(&self) -> MutexGuard<'_, Option<Look>> {
        self.last.lock().expect("nothing can panic while a look is copied")
    }
}

#[async_trait]
impl Provider for Watched {
    fn model(&self) -> ModelId {
        self.provider.model()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        self.provider.stream(request)
    }

    async fn ready(&self) {
        self.provider.ready().await;
    }

    fn room(&self, request: &Request) -> Option<usize> {
        self.provider.room(request)
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.provider.count_tokens(text)
    }

    async fn health(&self) -> Result<(), Failure> {
        if let Some(health) = self.fresh() {
            return health;
        }
        let _looking = self.looking.lock().await;
        match self.fresh() {
            Some(health) => health,
            None => self.look().await,
        }
    }

    fn status(&self) -> ProviderStatus {
        ProviderStatus {
            health: self.last().as_ref().map(|look| look.health.clone()),
            ..self.provider.status()
        }
    }
}

#[cfg(test)]
mod tests;
