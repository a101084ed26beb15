//! The circuit breaker: skips a provider for a while after too many failures, or when its server asks for a pause.
//! Requests fail at once meanwhile, so that a fallback can ask the next provider.
//!
//! [`state`] decides, as a pure state machine; [`observed_stream`] classifies how each answer ends; [`tracker`] connects
//! the two.

mod observed_stream;
mod state;
mod tracker;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Failure, ModelStream, Provider, ProviderStatus, Request};
use futures::stream::{self, StreamExt};

use observed_stream::ObservedStream;
pub use observed_stream::SilenceLimits;
pub use state::BreakerRules;
use tracker::Tracker;

/// A provider behind a circuit breaker.
pub struct CircuitBreaker {
    provider: Arc<dyn Provider>,
    silence: SilenceLimits,
    tracker: Arc<Tracker>,
}

impl CircuitBreaker {
    /// Wraps a provider; the breaker starts closed. An answer that is dropped after a silence beyond `silence` counts
    /// as a failure.
    pub fn new(provider: Arc<dyn Provider>, rules: BreakerRules, silence: SilenceLimits) -> Self {
        let tracker = Arc::new(Tracker::new(provider.model().provider, rules));
        Self { provider, silence, tracker }
    }
}

#[async_trait]
impl domain::ProviderDecorator for CircuitBreaker {
    fn inner(&self) -> &dyn Provider {
        &*self.provider
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        match self.tracker.admit() {
            Ok(permit) => {
                let answer = self.provider.stream(request);
                ObservedStream::new(answer, permit, self.tracker.clone(), self.silence).boxed()
            }
            Err(failure) => stream::iter([Err(failure)]).boxed(),
        }
    }

    async fn health(&self) -> Result<(), Failure> {
        match self.tracker.blocked() {
            Some(failure) => Err(failure),
            None => self.provider.health().await,
        }
    }

    fn status(&self) -> ProviderStatus {
        self.tracker.status(self.provider.status())
    }
}

#[cfg(test)]
mod tests;
