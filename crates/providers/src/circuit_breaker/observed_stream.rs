//! A provider's answer, observed on its way to the reader: classifies how it ends for the breaker.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use domain::{Failure, FailureKind, ModelEvent, ModelStream};
use futures::stream::{Stream, StreamExt};
use tokio::time::Instant;

use super::state::{Permit, RequestOutcome};
use super::tracker::Tracker;

/// How long a provider may be silent before the reader of its answer gives up.
#[derive(Clone, Copy, Debug)]
pub struct SilenceLimits {
    /// Before the first token: the first-token timeout.
    pub first_token: Duration,
    /// Between tokens: the stall timeout.
    pub stall: Duration,
}

/// Tolerance of the silence measured here: the reader's timeout starts up to this much earlier than this stream notices
/// the silence.
const TIMER_SKEW: Duration = Duration::from_millis(100);

/// An answer that is classified once: by its end, or when it is dropped.
pub(super) struct ObservedStream {
    answer: ModelStream,
    /// None once the answer is classified.
    permit: Option<Permit>,
    tracker: Arc<Tracker>,
    silence: SilenceLimits,
    /// Text, reasoning or a tool call has arrived.
    has_begun: bool,
    /// Text or a tool call has arrived.
    has_answer: bool,
    silent_since: Option<Instant>,
}

impl ObservedStream {
    pub(super) fn new(
        answer: ModelStream,
        permit: Permit,
        tracker: Arc<Tracker>,
        silence: SilenceLimits,
    ) -> Self {
        let (permit, silent_since) = (Some(permit), Some(Instant::now()));
        Self { answer, permit, tracker, silence, has_begun: false, has_answer: false, silent_since }
    }

    fn observe(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Started(_) | ModelEvent::Waiting | ModelEvent::Usage(_) => {}
            ModelEvent::Text(_) | ModelEvent::ToolCall(_) | ModelEvent::Reasoning(_) => {
                self.has_answer |= !matches!(event, ModelEvent::Reasoning(_));
                if !self.has_begun {
                    self.has_begun = true;
                    self.begins();
                }
            }
            ModelEvent::Finish(_) if self.has_answer => self.classify(RequestOutcome::Succeeded),
            // An empty answer does not count.
            ModelEvent::Finish(_) => self.classify(RequestOutcome::Neutral),
        }
    }

    fn begins(&self) {
        if let Some(permit) = self.permit {
            self.tracker.record(permit, RequestOutcome::Answering);
        }
    }

    fn classify(&mut self, outcome: RequestOutcome) {
        if let Some(permit) = self.permit.take() {
            self.tracker.record(permit, outcome);
        }
    }

    fn fails(&mut self, failure: &Failure) {
        if let Some(permit) = self.permit.take() {
            self.tracker.record_failure(permit, failure);
        }
    }

    /// The failure that a reader gives up with now, if the provider has been silent for too long.
    fn silence(&self) -> Option<Failure> {
        let (kind, limit) = match self.has_begun {
            false => (FailureKind::SilentAtStart, self.silence.first_token),
            true => (FailureKind::Stalled, self.silence.stall),
        };
        let is_too_long = self.silent_since?.elapsed() + TIMER_SKEW.min(limit / 10) >= limit;
        is_too_long.then(|| Failure::new(kind, format!("sent nothing for {limit:?}")))
    }
}

impl Stream for ObservedStream {
    type Item = Result<ModelEvent, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.answer.poll_next_unpin(context);
        match &polled {
            Poll::Pending => {
                self.silent_since.get_or_insert_with(Instant::now);
                return polled;
            }
            Poll::Ready(Some(Ok(event))) => self.observe(event),
            Poll::Ready(Some(Err(failure))) => self.fails(failure),
            Poll::Ready(None) if self.has_begun => {
                self.fails(&Failure::new(FailureKind::Died, "its answer broke off"));
            }
            Poll::Ready(None) => self.classify(RequestOutcome::Neutral),
        }
        self.silent_since = None;
        polled
    }
}

impl Drop for ObservedStream {
    /// A reader that disconnects counts neither for nor against the provider, unless the provider was silent for too
    /// long.
    fn drop(&mut self) {
        match self.silence() {
            Some(silence) => self.fails(&silence),
            None => self.classify(RequestOutcome::Neutral),
        }
    }
}
