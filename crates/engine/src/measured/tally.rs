//! What the log of one prompt adds to the totals: a fold over its batches, which needs nothing but them. It uses the
//! same events and the same times as what clients are told.

use std::time::Duration;

use domain::{Accepted, Event, ModelId, Outcome, Step, Timestamp};

use super::{Totals, micros};

/// The shortest time that an answer is taken to last, so that its pace is a number.
const SHORTEST: Duration = Duration::from_millis(1);

/// What is known so far of a prompt that runs.
pub(crate) struct Tally {
    accepted_at: Timestamp,
    /// Who answers, or who was to be asked first.
    model: ModelId,
    has_started: bool,
    tokens: u64,
    /// When the first and the last token of the answer came.
    spoken: Option<(Timestamp, Timestamp)>,
}

impl Tally {
    /// A prompt of which nothing is known but its beginning.
    pub(crate) fn new(accepted: &Accepted, at: Timestamp) -> Self {
        let model = accepted.first_choice.clone();
        Self { accepted_at: at, model, has_started: false, tokens: 0, spoken: None }
    }

    /// Adds a batch.
    pub(crate) fn add(&mut self, batch: &[Event], totals: &mut Totals) {
        let mut tokens = 0;
        for event in batch {
            match &event.step {
                Step::Stage(stage) => totals.stage(stage),
                Step::Started(model) => {
                    self.model = model.clone();
                    self.has_started = true;
                }
                Step::Text(_) if self.has_started => {
                    tokens += 1;
                    self.speak(event.at, totals);
                }
                Step::Ended(ended) => {
                    let failure = match &ended.outcome {
                        Outcome::Failed(failure) => Some(failure.kind),
                        Outcome::Done(_) | Outcome::Cancelled => None,
                    };
                    totals.ended((&ended.outcome).into(), failure);
                    self.end(event.at, totals);
                }
                _ => {}
            }
        }
        if tokens > 0 {
            self.tokens += tokens;
            totals.model(&self.model).tokens += tokens;
        }
    }

    fn speak(&mut self, at: Timestamp, totals: &mut Totals) {
        if let Some((_, last)) = &mut self.spoken {
            *last = at;
            return;
        }
        self.spoken = Some((at, at));
        totals.model(&self.model).first_token.observe(micros(at.since(self.accepted_at)));
    }

    fn end(&self, at: Timestamp, totals: &mut Totals) {
        let totals = totals.model(&self.model);
        totals.request.observe(micros(at.since(self.accepted_at)));
        let Some((first, last)) = self.spoken else { return };
        if self.tokens > 1 {
            totals.between_tokens.observe(micros(last.since(first)) / (self.tokens - 1));
        }
        totals.pace = Some(self.tokens as f64 / at.since(first).max(SHORTEST).as_secs_f64());
    }
}
