//! A provider that is left alone for a while when it fails too often, or asks for it. Whoever would ask it is told so
//! at once, and can ask another.

mod judge;
mod state;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use domain::{Failure, FailureKind, ModelId, ModelStream, Provider, ProviderStatus, Request};
use futures::stream::{self, StreamExt};
use tokio::time::Instant;

use judge::Judged;
pub use judge::Patience;
pub use state::BreakerRules;
use state::{Change, Skip, State, Ticket, Verdict};

/// A provider over a provider: asks it only while that makes sense.
pub struct Breaker {
    provider: Arc<dyn Provider>,
    patience: Patience,
    book: Arc<Book>,
}

impl Breaker {
    /// Begins closed. Silence beyond this patience counts against the provider when its answer is given up.
    pub fn new(provider: Arc<dyn Provider>, rules: BreakerRules, patience: Patience) -> Self {
        let entries = Entries { state: State::new(rules), last_failure: None };
        let book = Book { name: provider.model().provider, entries: Mutex::new(entries) };
        Self { provider, patience, book: Arc::new(book) }
    }
}

#[async_trait]
impl Provider for Breaker {
    fn model(&self) -> ModelId {
        self.provider.model()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        match self.book.ask() {
            Ok(ticket) => {
                let answer = self.provider.stream(request);
                Judged::new(answer, ticket, self.book.clone(), self.patience).boxed()
            }
            Err(failure) => stream::iter([Err(failure)]).boxed(),
        }
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
        let skipped = self.book.skipped();
        match skipped {
            Some(failure) => Err(failure),
            None => self.provider.health().await,
        }
    }

    fn status(&self) -> ProviderStatus {
        let entries = self.book.entries();
        let skipped_for = match entries.state.skip(Instant::now()) {
            Some(Skip::Open(wait) | Skip::Asked(wait)) => Some(wait),
            Some(Skip::Probing) | None => None,
        };
        let (breaker_open, last_failure) = (entries.state.is_open(), entries.last_failure.clone());
        ProviderStatus { breaker_open, skipped_for, last_failure, ..self.provider.status() }
    }
}

/// What is written down about a provider's requests.
struct Book {
    name: Arc<str>,
    entries: Mutex<Entries>,
}

struct Entries {
    state: State,
    /// Why the last request failed, if it did.
    last_failure: Option<Failure>,
}

impl Book {
    fn ask(&self) -> Result<Ticket, Failure> {
        let mut entries = self.entries();
        entries.state.ask(Instant::now()).map_err(|skip| entries.told(skip))
    }

    fn skipped(&self) -> Option<Failure> {
        let entries = self.entries();
        entries.state.skip(Instant::now()).map(|skip| entries.told(skip))
    }

    fn hear(&self, ticket: Ticket, verdict: Verdict) {
        let mut entries = self.entries();
        if verdict == Verdict::Succeeded {
            entries.last_failure = None;
        }
        if entries.state.hear(ticket, verdict, Instant::now()) == Some(Change::Closed) {
            tracing::info!(provider = %self.name, "a provider answers again");
        }
    }

    fn hear_failure(&self, ticket: Ticket, failure: &Failure) {
        let now = Instant::now();
        let mut entries = self.entries();
        entries.last_failure = Some(failure.clone());
        // A full queue of our own empties by itself, and its hint is for clients.
        let wait = failure.retry_after.filter(|_| failure.kind != FailureKind::Overloaded);
        if let Some(wait) = wait {
            entries.state.leave_alone(now + wait);
        }
        let verdict = if failure.kind.counts_for_breaker() { Verdict::Failed } else { Verdict::Nothing };
        if entries.state.hear(ticket, verdict, now) == Some(Change::Opened) {
            tracing::warn!(provider = %self.name, reason = %failure, "a provider fails too often, and is left alone");
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().expect("nothing can panic while it is written down")
    }
}

impl Entries {
    /// The failure that whoever is not let through is told.
    fn told(&self, skip: Skip) -> Failure {
        let (why, wait) = match skip {
            Skip::Open(wait) => ("it is not asked, since it failed too often", Some(wait)),
            Skip::Probing => {
                ("it is not asked before a first request is answered, since it failed too often", None)
            }
            Skip::Asked(wait) => ("it is not asked, since it wants to be left alone", Some(wait)),
        };
        let mut message = why.to_owned();
        if let Some(wait) = wait {
            message = format!("{message}, for another {} s", wait.as_secs_f64().ceil());
        }
        if let Some(last) = &self.last_failure {
            message = format!("{message} (the last time: {last})");
        }
        Failure { retry_after: wait, ..Failure::new(FailureKind::Unavailable, message) }
    }
}

#[cfg(test)]
mod tests;
