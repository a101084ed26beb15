//! Decorators: providers over another provider.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{Failure, ModelId, ModelStream, Provider, ProviderStatus, Request};

/// A provider that wraps another one and changes part of its behaviour.
///
/// Every method forwards to [`inner`](Self::inner) unless the decorator overrides it. A decorator is a
/// [`Provider`] by the implementation below, so a new method of the port is forwarded in this file only. Import
/// [`Provider`] to call a decorator, not this trait: both have the same methods.
#[async_trait]
pub trait ProviderDecorator: Send + Sync {
    /// The provider that calls are forwarded to.
    fn inner(&self) -> &dyn Provider;

    /// See [`Provider::model`].
    fn model(&self) -> ModelId {
        self.inner().model()
    }

    /// See [`Provider::stream`].
    fn stream(&self, request: Arc<Request>) -> ModelStream {
        self.inner().stream(request)
    }

    /// See [`Provider::ready`].
    async fn ready(&self) {
        self.inner().ready().await;
    }

    /// See [`Provider::room`].
    fn room(&self, request: &Request) -> Option<usize> {
        self.inner().room(request)
    }

    /// See [`Provider::count_tokens`].
    fn count_tokens(&self, text: &str) -> usize {
        self.inner().count_tokens(text)
    }

    /// See [`Provider::health`].
    async fn health(&self) -> Result<(), Failure> {
        self.inner().health().await
    }

    /// See [`Provider::caches_passages`].
    fn caches_passages(&self) -> bool {
        self.inner().caches_passages()
    }

    /// See [`Provider::status`].
    fn status(&self) -> ProviderStatus {
        self.inner().status()
    }
}

#[async_trait]
impl<D: ProviderDecorator> Provider for D {
    fn model(&self) -> ModelId {
        ProviderDecorator::model(self)
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        ProviderDecorator::stream(self, request)
    }

    async fn ready(&self) {
        ProviderDecorator::ready(self).await;
    }

    fn room(&self, request: &Request) -> Option<usize> {
        ProviderDecorator::room(self, request)
    }

    fn count_tokens(&self, text: &str) -> usize {
        ProviderDecorator::count_tokens(self, text)
    }

    async fn health(&self) -> Result<(), Failure> {
        ProviderDecorator::health(self).await
    }

    fn caches_passages(&self) -> bool {
        ProviderDecorator::caches_passages(self)
    }

    fn status(&self) -> ProviderStatus {
        ProviderDecorator::status(self)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::stream::{self, StreamExt};

    use super::*;
    use crate::{FailureKind, ModelEvent};

    /// A provider whose every method returns something else than its default.
    struct Inner;

    fn failure() -> Failure {
        Failure::new(FailureKind::Refused, "no")
    }

    #[async_trait]
    impl Provider for Inner {
        fn model(&self) -> ModelId {
            ModelId { provider: "inner".into(), model: "m".into() }
        }

        fn stream(&self, _: Arc<Request>) -> ModelStream {
            stream::iter([Ok(ModelEvent::Waiting)]).boxed()
        }

        async fn ready(&self) {
            std::future::pending::<()>().await;
        }

        fn room(&self, _: &Request) -> Option<usize> {
            Some(7)
        }

        fn count_tokens(&self, _: &str) -> usize {
            9
        }

        async fn health(&self) -> Result<(), Failure> {
            Err(failure())
        }

        fn caches_passages(&self) -> bool {
            true
        }

        fn status(&self) -> ProviderStatus {
            ProviderStatus { breaker_open: true, ..ProviderStatus::default() }
        }
    }

    struct Unchanged(Inner);

    impl ProviderDecorator for Unchanged {
        fn inner(&self) -> &dyn Provider {
            &self.0
        }
    }

    #[test]
    fn a_decorator_forwards_every_method_that_it_does_not_override() {
        let provider: &dyn Provider = &Unchanged(Inner);
        assert_eq!(&*provider.model().provider, "inner");
        let events: Vec<_> = provider.stream(Arc::new(Request::default())).collect().now_or_never().unwrap();
        assert_eq!(events, [Ok(ModelEvent::Waiting)]);
        assert_eq!(provider.ready().now_or_never(), None);
        assert_eq!(provider.room(&Request::default()), Some(7));
        assert_eq!(provider.count_tokens(""), 9);
        assert_eq!(provider.health().now_or_never(), Some(Err(failure())));
        assert!(provider.caches_passages() && provider.status().breaker_open);
    }
}
