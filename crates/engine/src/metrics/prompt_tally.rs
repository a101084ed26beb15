//! Folds the log of one prompt into the metrics. It uses the events and times that clients see, and nothing
//! else.

use std::time::Duration;

use domain::{Accepted, Event, ModelId, Outcome, Step, Timestamp};

use super::{EngineMetrics, micros};

/// Lower bound on the duration of an answer when its tokens per second are computed.
const MIN_DURATION: Duration = Duration::from_millis(1);

/// What the metrics need to remember of a running prompt between its batches.
pub(crate) struct PromptTally {
    accepted_at: Timestamp,
    /// The model that answers; until one has started, the first choice.
    model: ModelId,
    has_started: bool,
    tokens: u64,
    /// The times of the answer's first and last token.
    token_times: Option<(Timestamp, Timestamp)>,
}

impl PromptTally {
    /// The tally of a prompt that was accepted at `at`.
    pub(crate) fn new(accepted: &Accepted, at: Timestamp) -> Self {
        let model = accepted.first_choice.clone();
        Self { accepted_at: at, model, has_started: false, tokens: 0, token_times: None }
    }

    /// Adds a batch of the log to the metrics.
    pub(crate) fn add(&mut self, batch: &[Event], metrics: &mut EngineMetrics) {
        let mut tokens = 0;
        for event in batch {
            match &event.step {
                Step::Stage(stage) => metrics.record_stage(stage),
                Step::Started(model) => {
                    self.model = model.clone();
                    self.has_started = true;
                }
                Step::Text(_) if self.has_started => {
                    tokens += 1;
                    self.add_token(event.at, metrics);
                }
                Step::Ended(ended) => {
                    let failure = match &ended.outcome {
                        Outcome::Failed(failure) => Some(failure.kind),
                        Outcome::Done(_) | Outcome::Cancelled => None,
                    };
                    metrics.record_end((&ended.outcome).into(), failure);
                    self.end(event.at, metrics);
                }
                _ => {}
            }
        }
        if tokens > 0 {
            self.tokens += tokens;
            metrics.model(&self.model).tokens += tokens;
        }
    }

    fn add_token(&mut self, at: Timestamp, metrics: &mut EngineMetrics) {
        if let Some((_, last)) = &mut self.token_times {
            *last = at;
            return;
        }
        self.token_times = Some((at, at));
        metrics.model(&self.model).first_token.observe(micros(at.since(self.accepted_at)));
    }

    fn end(&self, at: Timestamp, metrics: &mut EngineMetrics) {
        let model = metrics.model(&self.model);
        model.request.observe(micros(at.since(self.accepted_at)));
        let Some((first, last)) = self.token_times else { return };
        if self.tokens > 1 {
            model.inter_token.observe(micros(last.since(first)) / (self.tokens - 1));
        }
        let seconds = at.since(first).max(MIN_DURATION).as_secs_f64();
        model.tokens_per_second = Some(self.tokens as f64 / seconds);
    }
}
