//! The way of one prompt: admit, start or join, rewrite, retrieve, compose, generate, cite. Each prompt runs as its own
//! task and appends events to its log; clients only ever read that log.
//!
//! What runs here is per node. Whether a key is taken or a session busy is the journal's decision.

mod admit;
mod answer;
mod cancel;
mod cite;
mod compose;
mod conversation;
mod cut;
mod follow_up;
mod generate;
mod halt;
mod health;
mod history;
mod live;
mod log;
mod measured;
mod prose;
mod providers;
mod readers;
mod retrieve;
mod rewrite;
mod round;
mod run;
mod running;
mod sentences;
mod sessions;
mod way;
mod words;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, EndCause, History, Journal, Retriever, Sessions, WhenNothingFound};
use tokio::sync::{RwLock, Semaphore};
use tokio_util::task::TaskTracker;

pub use crate::compose::about;
pub use crate::follow_up::standalone;
use crate::health::Health;
pub use crate::health::ProviderHealth;
use crate::measured::Measured;
pub use crate::measured::{Histogram, ModelTotals, Totals};
pub use crate::providers::{BadOwnerPattern, Providers};
pub use crate::readers::Reader;
use crate::running::Running;

/// The bounds within which prompts run.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Prompts that may run at once.
    pub concurrent_streams: usize,
    /// Readers that may read at once.
    pub readers: usize,
    /// The longest question, in characters.
    pub question_chars: usize,
    /// The largest answer, in bytes.
    pub answer_bytes: usize,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// How long a model that has begun to answer may be silent.
    pub stall: Duration,
    /// How long a prompt may take in all.
    pub total: Duration,
    /// How long a prompt goes on when its last reader has left.
    pub resume: Duration,
    /// How long a session may be idle.
    pub idle: Duration,
}

/// What the engine stands on.
pub struct Ports {
    /// Claims and logs.
    pub journal: Arc<dyn Journal>,
    /// Sessions.
    pub sessions: Arc<dyn Sessions>,
    /// Ended prompts.
    pub history: Arc<dyn History>,
    /// Finds passages.
    pub retriever: Arc<dyn Retriever>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// How questions are answered.
#[derive(Clone, Copy, Debug)]
pub struct Answering {
    /// 0 is the most likely answer.
    pub temperature: f32,
    /// How many tokens the passages in a prompt may have in all.
    pub context_tokens: usize,
    /// Passages whose cosine has less than this share of the best one's are not given to the model.
    pub least_share: f32,
    /// What is done if nothing is found, whatever the dialect would do.
    pub when_nothing_found: Option<WhenNothingFound>,
    /// What is looked for when a question goes on from an earlier one.
    pub rewriting: Rewriting,
}

/// What is looked for when a question goes on from an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewriting {
    /// The question as it is.
    Off,
    /// The question with what it goes on from, by a rule.
    Rule,
    /// What the model makes of it, in a round of its own; if that comes to nothing, by the rule.
    Model,
}

/// Runs prompts. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    ports: Ports,
    providers: Providers,
    limits: Limits,
    answering: Answering,
    running: Running,
    streams: Arc<Semaphore>,
    readers: Arc<Semaphore>,
    /// Held for reading by admissions that have a stream and wait for the journal.
    starting: RwLock<()>,
    tasks: TaskTracker,
    health: Health,
    measured: Arc<Measured>,
}

impl Engine {
    /// An engine with nothing running.
    pub fn new(ports: Ports, providers: Providers, limits: Limits, answering: Answering) -> Self {
        let shared = Shared {
            streams: Arc::new(Semaphore::new(limits.concurrent_streams)),
            readers: Arc::new(Semaphore::new(limits.readers)),
            starting: RwLock::default(),
            running: Running::default(),
            tasks: TaskTracker::new(),
            health: Health::default(),
            measured: Arc::default(),
            ports,
            providers,
            limits,
            answering,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whether it takes no new prompts any more.
    pub fn is_stopping(&self) -> bool {
        self.shared.running.is_closed()
    }

    /// Takes no new prompts from now on; the running ones go on.
    pub fn close(&self) {
        self.shared.running.close();
        self.shared.tasks.close();
    }

    /// Takes no new prompts, and waits until the running ones have ended by themselves.
    pub async fn drain(&self) {
        self.close();
        self.shared.tasks.wait().await;
    }

    /// Takes no new prompts, ends the running ones with `interrupted`, and waits until they have ended.
    pub async fn shutdown(&self) {
        for live in self.shared.running.close() {
            live.stop(EndCause::Drain);
        }
        self.drain().await;
    }
}
