//! Metrics since the engine's start. Events are counted per batch as the batch enters a log, so nothing here
//! runs per token, and an event is counted before a client sees it.

mod buckets;
mod histogram;
mod prompt_tally;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{FailureKind, ModelId, Principal, PromptStatus, SessionId, Stage, StageName, StorageError};
use tracing::warn;

use crate::Engine;
pub use histogram::Histogram;
pub(crate) use prompt_tally::PromptTally;

/// Counters and histograms since the engine's start. Times are in microseconds. The only labels are providers
/// and models from the settings, so the size is bounded.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    /// Metrics by provider and model.
    pub models: BTreeMap<(Arc<str>, Arc<str>), ModelMetrics>,
    /// Durations of rewriting, retrieval and reranking.
    pub stages: Vec<(StageName, Histogram)>,
    /// Time from a client's cancel to the end of its prompt.
    pub cancel_latency: Histogram,
    /// Answer tokens of each session that has ended or expired.
    pub session_tokens: Histogram,
    /// Ended prompts by outcome.
    pub outcomes: Vec<(PromptStatus, u64)>,
    /// Failed prompts by the kind of their failure.
    pub failures: Vec<(FailureKind, u64)>,
}

/// Counters and histograms of one model. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct ModelMetrics {
    /// Time from the prompt to the first token of its answer.
    pub first_token: Histogram,
    /// Time between consecutive tokens, as the average of each answer.
    pub inter_token: Histogram,
    /// Time from the prompt to its end.
    pub request: Histogram,
    /// Tokens of all answers.
    pub tokens: u64,
    /// Tokens per second of the answer that ended last; none before the first.
    pub tokens_per_second: Option<f64>,
}

/// The metrics that all clones of the engine update.
pub(crate) struct SharedMetrics {
    metrics: Mutex<EngineMetrics>,
}

impl Engine {
    /// A snapshot of the metrics.
    pub fn metrics(&self) -> EngineMetrics {
        self.shared.metrics.lock().clone()
    }

    /// Records the duration of a retrieval stage outside of a prompt, such as that of a search request.
    /// Ignores the beginning of a stage.
    pub fn record_stage(&self, stage: &Stage) {
        self.shared.metrics.lock().record_stage(stage);
    }

    /// The number of prompts that run on this node.
    pub fn running_prompts(&self) -> usize {
        self.shared.running.len()
    }

    /// The number of sessions that take prompts: neither ended nor expired. Fails if the store cannot count
    /// them.
    pub async fn active_sessions(&self) -> Result<u64, StorageError> {
        let alive_since = self.now().minus(self.shared.limits.idle);
        self.shared.ports.sessions.alive(alive_since).await
    }

    /// Records the answer tokens of sessions that have ended or expired.
    pub(crate) fn record_session_tokens(&self, sessions: &[u64]) {
        let mut metrics = self.shared.metrics.lock();
        sessions.iter().for_each(|tokens| metrics.session_tokens.observe(*tokens));
    }

    pub(crate) async fn record_ended_session(&self, principal: &Principal, session: SessionId) {
        match self.shared.ports.sessions.find(principal, session).await {
            Ok(session) => {
                let tokens: Vec<_> = session.iter().map(|session| session.token_count).collect();
                self.record_session_tokens(&tokens);
            }
            Err(reason) => warn!(%session, %reason, "the tokens of an ended session are not counted"),
        }
    }
}

impl SharedMetrics {
    /// Every change under the lock is complete before anything can panic, so a poisoned lock is still sound.
    pub(crate) fn lock(&self) -> MutexGuard<'_, EngineMetrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SharedMetrics {
    fn default() -> Self {
        Self { metrics: Mutex::new(EngineMetrics::new()) }
    }
}

impl EngineMetrics {
    fn new() -> Self {
        let stages = [StageName::Rewriting, StageName::Retrieval, StageName::Reranking];
        let outcomes = [PromptStatus::Done, PromptStatus::Cancelled, PromptStatus::Error];
        Self {
            models: BTreeMap::new(),
            stages: stages.map(|name| (name, Histogram::new(buckets::STAGE))).into(),
            cancel_latency: Histogram::new(buckets::STAGE),
            session_tokens: Histogram::new(buckets::SESSION_TOKENS),
            outcomes: outcomes.map(|outcome| (outcome, 0)).into(),
            failures: FailureKind::ALL.map(|kind| (kind, 0)).into(),
        }
    }

    pub(crate) fn record_cancel(&mut self, took: Duration) {
        self.cancel_latency.observe(micros(took));
    }

    fn record_stage(&mut self, stage: &Stage) {
        let Stage::Ended { name, took, .. } = stage else { return };
        let histogram = self.stages.iter_mut().find(|(known, _)| known == name);
        histogram.into_iter().for_each(|(_, histogram)| histogram.observe(micros(*took)));
    }

    fn model(&mut self, model: &ModelId) -> &mut ModelMetrics {
        let name = (model.provider.clone(), model.model.clone());
        self.models.entry(name).or_insert_with(|| ModelMetrics {
            first_token: Histogram::new(buckets::FIRST_TOKEN),
            inter_token: Histogram::new(buckets::INTER_TOKEN),
            request: Histogram::new(buckets::REQUEST),
            tokens: 0,
            tokens_per_second: None,
        })
    }

    fn record_end(&mut self, status: PromptStatus, failure: Option<FailureKind>) {
        increment(&mut self.outcomes, &status);
        failure.into_iter().for_each(|kind| increment(&mut self.failures, &kind));
    }
}

fn increment<T: PartialEq>(counters: &mut [(T, u64)], label: &T) {
    let counter = counters.iter_mut().find(|(known, _)| known == label);
    counter.into_iter().for_each(|(_, count)| *count += 1);
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
