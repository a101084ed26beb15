//! The engine: its ports, the state that all its clones share, and how it stops.

use std::sync::Arc;

use domain::{Clock, EndCause, History, Journal, Retriever, Sessions, Timestamp};
use tokio::sync::{RwLock, Semaphore};
use tokio_util::task::TaskTracker;

use crate::health::HealthCache;
use crate::metrics::SharedMetrics;
use crate::running::RunningPrompts;
use crate::{AnswerSettings, Limits, Providers};

/// The ports that the engine uses, beside its [`Providers`].
pub struct Ports {
    /// Claims of sessions and idempotency keys, and the logs of prompts.
    pub journal: Arc<dyn Journal>,
    /// Sessions and when they were last active.
    pub sessions: Arc<dyn Sessions>,
    /// Stored prompts and conversations.
    pub history: Arc<dyn History>,
    /// Retrieves passages for a query.
    pub retriever: Arc<dyn Retriever>,
    /// The wall clock of events and sessions. Timeouts use Tokio's clock.
    pub clock: Arc<dyn Clock>,
}

/// Runs prompts. Cloning is cheap, and all clones share one state.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) ports: Ports,
    pub(crate) providers: Providers,
    pub(crate) limits: Limits,
    pub(crate) answering: AnswerSettings,
    pub(crate) running: RunningPrompts,
    pub(crate) stream_slots: Arc<Semaphore>,
    pub(crate) reader_slots: Arc<Semaphore>,
    /// Read-locked by an admission from taking a stream slot until the journal has decided its claim;
    /// write-locked to wait for the claims in flight.
    pub(crate) starting: RwLock<()>,
    pub(crate) tasks: TaskTracker,
    pub(crate) health: HealthCache,
    pub(crate) metrics: Arc<SharedMetrics>,
}

impl Engine {
    /// An engine with no prompt running.
    pub fn new(ports: Ports, providers: Providers, limits: Limits, answering: AnswerSettings) -> Self {
        let shared = Shared {
            stream_slots: Arc::new(Semaphore::new(limits.concurrent_streams)),
            reader_slots: Arc::new(Semaphore::new(limits.readers)),
            starting: RwLock::default(),
            running: RunningPrompts::default(),
            tasks: TaskTracker::new(),
            health: HealthCache::default(),
            metrics: Arc::default(),
            ports,
            providers,
            limits,
            answering,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The current time by the engine's clock port.
    pub fn now(&self) -> Timestamp {
        self.shared.ports.clock.now()
    }

    /// Whether admission is closed: [`Self::close`], [`Self::drain`] or [`Self::shutdown`] was called.
    pub fn is_stopping(&self) -> bool {
        self.shared.running.is_closed()
    }

    /// Closes admission: new prompts are rejected from now on. Running prompts continue.
    pub fn close(&self) {
        self.shared.running.close();
        self.shared.tasks.close();
    }

    /// Closes admission and waits until every running prompt has ended by itself.
    pub async fn drain(&self) {
        self.close();
        self.shared.tasks.wait().await;
    }

    /// Closes admission, ends every running prompt as interrupted, and waits until all have ended.
    pub async fn shutdown(&self) {
        for prompt in self.shared.running.close() {
            prompt.stop(EndCause::Drain);
        }
        self.drain().await;
    }
}
