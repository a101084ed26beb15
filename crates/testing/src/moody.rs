//! A provider in a mood, which a test changes as it goes: to see what others do while one fails and recovers. Without
//! sockets: good on paused time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, FailureKind, FinishReason, ModelEvent, ModelId, ModelStream, Provider, Request, Text};
use futures::future::pending;
use futures::stream::{self, StreamExt};
use tokio::time::sleep;

/// Tokens that fit into such a model; each byte is one.
const WINDOW: usize = 8_192;

/// What a [`MoodyProvider`] does with a request.
#[derive(Clone, Debug)]
pub struct Mood {
    wait: Duration,
    says_something: bool,
    end: End,
}

#[derive(Clone, Debug)]
enum End {
    Finish,
    Fail(Failure),
    Silence,
    BreakOff,
    Panic,
}

impl Mood {
    /// A word, and a proper end.
    pub fn answers() -> Self {
        Self { wait: Duration::ZERO, says_something: true, end: End::Finish }
    }

    /// This failure.
    pub fn fails(failure: Failure) -> Self {
        Self { wait: Duration::ZERO, says_something: false, end: End::Fail(failure) }
    }

    /// Nothing, and no end.
    pub fn silent() -> Self {
        Self { wait: Duration::ZERO, says_something: false, end: End::Silence }
    }

    /// Nothing, and the connection is gone.
    pub fn breaks_off() -> Self {
        Self { wait: Duration::ZERO, says_something: false, end: End::BreakOff }
    }

    /// A panic, also when it is asked for its health.
    pub fn panics() -> Self {
        Self { wait: Duration::ZERO, says_something: false, end: End::Panic }
    }

    /// A proper end, and nothing before it.
    pub fn empty() -> Self {
        Self { says_something: false, ..Self::answers() }
    }

    /// The same, but with a word before its end.
    #[must_use]
    pub fn midway(self) -> Self {
        Self { says_something: true, ..self }
    }

    /// The same, but so much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }
}

/// A provider that is in a mood.
pub struct MoodyProvider {
    model: ModelId,
    mood: Mutex<Mood>,
    calls: AtomicUsize,
    failures: Arc<AtomicUsize>,
    looks: AtomicUsize,
}

impl MoodyProvider {
    /// One with this name, in this mood.
    pub fn new(name: &str, mood: Mood) -> Arc<Self> {
        Arc::new(Self {
            model: ModelId { provider: name.into(), model: "moody".into() },
            mood: Mutex::new(mood),
            calls: AtomicUsize::default(),
            failures: Arc::default(),
            looks: AtomicUsize::default(),
        })
    }

    /// What it does from now on. Calls that it has taken go on as they were.
    pub fn set(&self, mood: Mood) {
        *self.mood.lock().expect("nothing panics while a mood is set") = mood;
    }

    /// How often it was asked for an answer.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many of these have failed.
    pub fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    /// How often it was asked for its health.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }

    fn mood(&self) -> Mood {
        self.mood.lock().expect("nothing panics while a mood is copied").clone()
    }
}

#[async_trait]
impl Provider for MoodyProvider {
    fn model(&self) -> ModelId {
        self.model.clone()
    }

    fn stream(&self, _: Arc<Request>) -> ModelStream {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let (Mood { wait, says_something, end }, failures) = (self.mood(), self.failures.clone());
        let started = ModelEvent::Started(self.model());
        let first = says_something.then(|| ModelEvent::Text(Text::from("Hm.")));
        let waited = stream::once(sleep(wait)).filter_map(|()| async { None });
        let last = stream::once(async move {
            match end {
                End::Finish => Some(Ok(ModelEvent::Finish(FinishReason::Stop))),
                End::Fail(failure) => {
                    failures.fetch_add(1, Ordering::Relaxed);
                    Some(Err(failure))
                }
                End::Silence => pending().await,
                End::BreakOff => None,
                End::Panic => panic!("it is in a mood to panic"),
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
        self.looks.fetch_add(1, Ordering::Relaxed);
        let Mood { wait, end, .. } = self.mood();
        sleep(wait).await;
        match end {
            End::Finish | End::BreakOff => Ok(()),
            End::Fail(failure) => Err(failure),
            End::Silence => Err(Failure::new(FailureKind::Unavailable, "it says nothing")),
            End::Panic => panic!("it is in a mood to panic"),
        }
    }
}
