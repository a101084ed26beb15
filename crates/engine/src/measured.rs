//! What was measured since the start, for whoever watches over it. Batches of events are added up as they enter a log,
//! so nothing here is done per token, and everything a client is told is counted before it is told.

mod bounds;
mod histogram;
mod tally;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{FailureKind, ModelId, Principal, PromptStatus, SessionId, Stage, StageName, StorageError};
use tracing::warn;

use crate::Engine;
pub use histogram::Histogram;
pub(crate) use tally::Tally;

/// Everything that was measured. Who can be named in it is configured, so it does not grow.
#[derive(Clone, Debug)]
pub struct Totals {
    /// By provider and model.
    pub models: BTreeMap<(Arc<str>, Arc<str>), ModelTotals>,
    /// How long each stage of finding took.
    pub stages: Vec<(StageName, Histogram)>,
    /// From a client's cancel to the end of its prompt.
    pub cancels: Histogram,
    /// Tokens of sessions that are over.
    pub session_tokens: Histogram,
    /// How prompts ended.
    pub outcomes: Vec<(PromptStatus, u64)>,
    /// Why prompts failed.
    pub failures: Vec<(FailureKind, u64)>,
}

/// What a model did.
#[derive(Clone, Debug)]
pub struct ModelTotals {
    /// From the prompt to the first token of its answer.
    pub first_token: Histogram,
    /// From one token of an answer to the next, on average over each answer.
    pub between_tokens: Histogram,
    /// From the prompt to its end.
    pub request: Histogram,
    /// Tokens of answers.
    pub tokens: u64,
    /// The pace of the answer that ended last, in tokens per second.
    pub pace: Option<f64>,
}

/// What was measured, where it is added up.
pub(crate) struct Measured {
    totals: Mutex<Totals>,
}

impl Engine {
    /// What was measured since the start.
    pub fn totals(&self) -> Totals {
        self.shared.measured.totals().clone()
    }

    /// Adds a stage of finding that belongs to no prompt.
    pub fn measure_stage(&self, stage: &Stage) {
        self.shared.measured.totals().stage(stage);
    }

    /// How many prompts run.
    pub fn running_prompts(&self) -> usize {
        self.shared.running.len()
    }

    /// How many sessions there are in which prompts may be asked.
    pub async fn active_sessions(&self) -> Result<u64, StorageError> {
        let alive_since = self.shared.ports.clock.now().minus(self.shared.limits.idle);
        self.shared.ports.sessions.alive(alive_since).await
    }

    /// Adds sessions that are over, by their tokens.
    pub(crate) fn measure_expired(&self, tokens: &[u64]) {
        let mut totals = self.shared.measured.totals();
        tokens.iter().for_each(|tokens| totals.session_tokens.observe(*tokens));
    }

    /// Adds a session that was ended just now.
    pub(crate) async fn measure_ended(&self, who: &Principal, session: SessionId) {
        match self.shared.ports.sessions.find(who, session).await {
            Ok(session) => {
                let tokens: Vec<_> = session.iter().map(|session| session.token_count).collect();
                self.measure_expired(&tokens);
            }
            Err(reason) => warn!(%session, %reason, "the tokens of a session are not counted"),
        }
    }
}

impl Measured {
    /// Every change of the totals is whole before anything can panic, so a poisoned lock is still good.
    pub(crate) fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Measured {
    fn default() -> Self {
        Self { totals: Mutex::new(Totals::new()) }
    }
}

impl Totals {
    fn new() -> Self {
        let stages = [StageName::Rewriting, StageName::Retrieval, StageName::Reranking];
        let outcomes = [PromptStatus::Done, PromptStatus::Cancelled, PromptStatus::Error];
        Self {
            models: BTreeMap::new(),
            stages: stages.map(|name| (name, Histogram::new(bounds::SHORT))).into(),
            cancels: Histogram::new(bounds::SHORT),
            session_tokens: Histogram::new(bounds::SESSION_TOKENS),
            outcomes: outcomes.map(|outcome| (outcome, 0)).into(),
            failures: FailureKind::ALL.map(|kind| (kind, 0)).into(),
        }
    }

    pub(crate) fn cancelled(&mut self, took: Duration) {
        self.cancels.observe(micros(took));
    }

    fn stage(&mut self, stage: &Stage) {
        let Stage::Ended { name, took, .. } = stage else { return };
        let histogram = self.stages.iter_mut().find(|(known, _)| known == name);
        histogram.into_iter().for_each(|(_, histogram)| histogram.observe(micros(*took)));
    }

    fn model(&mut self, model: &ModelId) -> &mut ModelTotals {
        let name = (model.provider.clone(), model.model.clone());
        self.models.entry(name).or_insert_with(|| ModelTotals {
            first_token: Histogram::new(bounds::FIRST_TOKEN),
            between_tokens: Histogram::new(bounds::TOKEN),
            request: Histogram::new(bounds::REQUEST),
            tokens: 0,
            pace: None,
        })
    }

    fn ended(&mut self, status: PromptStatus, failure: Option<FailureKind>) {
        count(&mut self.outcomes, &status);
        failure.into_iter().for_each(|kind| count(&mut self.failures, &kind));
    }
}

fn count<T: PartialEq>(counters: &mut [(T, u64)], what: &T) {
    let counter = counters.iter_mut().find(|(known, _)| known == what);
    counter.into_iter().for_each(|(_, count)| *count += 1);
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
