//! A provider whose behaviour a test switches between calls, to test what reacts to failure and recovery:
//! fallback, circuit breaker, health checks. It has no sockets, so it works on paused time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, FailureKind, FinishReason, ModelEvent, ModelId, ModelStream, Provider, Request, Text};
use futures::future::pending;
use futures::stream::{self, StreamExt};
use tokio::time::sleep;

/// The context window in tokens, where each byte is a token.
const WINDOW: usize = 8_192;

/// How a [`SwitchableProvider`] responds to requests and health checks.
#[derive(Clone, Debug)]
pub struct Behaviour {
    delay: Duration,
    sends_a_token: bool,
    end: Ending,
}

#[derive(Clone, Debug)]
enum Ending {
    Finish,
    Fail(Failure),
    Silence,
    BreakOff,
    Panic,
}

impl Behaviour {
    /// Sends one token and ends with `Stop`. Healthy.
    pub fn answers() -> Self {
        Self { delay: Duration::ZERO, sends_a_token: true, end: Ending::Finish }
    }

    /// Fails before the first token. Health checks fail too.
    pub fn fails(failure: Failure) -> Self {
        Self { delay: Duration::ZERO, sends_a_token: false, end: Ending::Fail(failure) }
    }

    /// Sends nothing and does not end. Health checks fail.
    pub fn silent() -> Self {
        Self { delay: Duration::ZERO, sends_a_token: false, end: Ending::Silence }
    }

    /// Ends the stream before the first token, without an end event. Healthy.
    pub fn breaks_off() -> Self {
        Self { delay: Duration::ZERO, sends_a_token: false, end: Ending::BreakOff }
    }

    /// Panics on requests and on health checks.
    pub fn panics() -> Self {
        Self { delay: Duration::ZERO, sends_a_token: false, end: Ending::Panic }
    }

    /// Ends with `Stop` without a token. Healthy.
    pub fn empty() -> Self {
        Self { sends_a_token: false, ..Self::answers() }
    }

    /// Sends one token first.
    #[must_use]
    pub fn after_first_token(self) -> Self {
        Self { sends_a_token: true, ..self }
    }

    /// Waits this long before the first token, the end and the result of a health check.
    #[must_use]
    pub fn delayed(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

/// Responds to every call with its current [`Behaviour`], and counts the calls.
pub struct SwitchableProvider {
    model: ModelId,
    behaviour: Mutex<Behaviour>,
    calls: AtomicUsize,
    failures: Arc<AtomicUsize>,
    health_checks: AtomicUsize,
}

impl SwitchableProvider {
    /// A provider with this name and behaviour.
    pub fn new(name: &str, behaviour: Behaviour) -> Arc<Self> {
        Arc::new(Self {
            model: ModelId { provider: name.into(), model: "switchable".into() },
            behaviour: Mutex::new(behaviour),
            calls: AtomicUsize::default(),
            failures: Arc::default(),
            health_checks: AtomicUsize::default(),
        })
    }

    /// Switches the behaviour of future calls. Running calls are not affected.
    pub fn switch_to(&self, behaviour: Behaviour) {
        *self.behaviour.lock().expect("no thread panics with the lock") = behaviour;
    }

    /// Number of requests so far.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Number of requests that have failed.
    pub fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    /// Number of health checks so far.
    pub fn health_checks(&self) -> usize {
        self.health_checks.load(Ordering::Relaxed)
    }

    fn behaviour(&self) -> Behaviour {
        self.behaviour.lock().expect("no thread panics with the lock").clone()
    }
}

#[async_trait]
impl Provider for SwitchableProvider {
    fn model(&self) -> ModelId {
        self.model.clone()
    }

    fn stream(&self, _: Arc<Request>) -> ModelStream {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let (Behaviour { delay, sends_a_token, end }, failures) = (self.behaviour(), self.failures.clone());
        let started = ModelEvent::Started(self.model());
        let first = sends_a_token.then(|| ModelEvent::Text(Text::from("Hm.")));
        let waited = stream::once(sleep(delay)).filter_map(|()| async { None });
        let last = stream::once(async move {
            match end {
                Ending::Finish => Some(Ok(ModelEvent::Finish(FinishReason::Stop))),
                Ending::Fail(failure) => {
                    failures.fetch_add(1, Ordering::Relaxed);
                    Some(Err(failure))
                }
                Ending::Silence => pending().await,
                Ending::BreakOff => None,
                Ending::Panic => panic!("the test makes the provider panic"),
            }
        })
        .filter_map(async |last| last);
        stream::iter([Ok(started)]).chain(waited).chain(stream::iter(first.map(Ok))).chain(last).boxed()
    }

    fn room(&self, request: &Request) -> Option<usize> {
        request.room(WINDOW, str::len)
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len()
    }

    async fn health(&self) -> Result<(), Failure> {
        self.health_checks.fetch_add(1, Ordering::Relaxed);
        let Behaviour { delay, end, .. } = self.behaviour();
        sleep(delay).await;
        match end {
            Ending::Finish | Ending::BreakOff => Ok(()),
            Ending::Fail(failure) => Err(failure),
            Ending::Silence => Err(Failure::new(FailureKind::Unavailable, "it is silent")),
            Ending::Panic => panic!("the test makes the provider panic"),
        }
    }
}
