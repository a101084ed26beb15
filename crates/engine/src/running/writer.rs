//! The writer of a running log. It guarantees positions without a gap, times that never go back, that a batch
//! is durable before it is visible, and exactly one terminal event.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use domain::{Accepted, Batch, Clock, EndCause, Ended, Event, Journal, Run, Step, StorageError, Timestamp};
use futures::FutureExt;
use tracing::error;

use crate::engine::Shared;
use crate::metrics::{PromptTally, SharedMetrics};
use crate::running::log::PromptLog;

/// The only writer of one prompt's log.
pub(crate) struct LogWriter {
    run: Run,
    log: Arc<PromptLog>,
    journal: Arc<dyn Journal>,
    clock: Arc<dyn Clock>,
    metrics: Arc<SharedMetrics>,
    tally: PromptTally,
    position: u64,
    last_at: Timestamp,
}

impl LogWriter {
    /// A writer that continues behind the first event, which the claim has written at `at`.
    pub(crate) fn new(
        shared: &Shared,
        run: Run,
        accepted: &Accepted,
        at: Timestamp,
        log: Arc<PromptLog>,
    ) -> Self {
        Self {
            run,
            log,
            journal: shared.ports.journal.clone(),
            clock: shared.ports.clock.clone(),
            metrics: shared.metrics.clone(),
            tally: PromptTally::new(accepted, at),
            position: 1,
            last_at: at,
        }
    }

    /// Appends the steps as one batch, and empties `steps`. Fails if the journal does not take the batch; it
    /// is then not visible either.
    pub(crate) async fn append(&mut self, steps: &mut Vec<Step>) -> Result<(), StorageError> {
        let batch = self.batch(steps.drain(..));
        self.journal.append(&self.run, batch.clone()).await?;
        self.position += batch.len() as u64;
        self.tally.add(&batch, &mut self.metrics.lock());
        self.log.publish(batch);
        Ok(())
    }

    /// Writes the terminal event to the journal, and returns the batch that readers get. If the journal does
    /// not take the event, that batch holds what the journal's recovery will write instead: an interruption.
    pub(crate) async fn finish(mut self, ended: Ended) -> (Batch, Ended) {
        let last = self.batch([Step::Ended(Box::new(ended.clone()))].into_iter());
        let finished = AssertUnwindSafe(self.journal.finish(self.run, last.clone())).catch_unwind().await;
        let finished = finished.unwrap_or_else(|_| Err(StorageError::other("the journal panicked")));
        let (last, ended) = match finished {
            Ok(()) => (last, ended),
            Err(reason) => {
                error!(%reason, "the end of a prompt could not be written to the journal");
                let interrupted = Ended::interrupted(EndCause::Journal);
                let event = Event { step: Step::Ended(Box::new(interrupted.clone())), ..last[0].clone() };
                ([event].into(), interrupted)
            }
        };
        self.tally.add(&last, &mut self.metrics.lock());
        (last, ended)
    }

    fn batch(&mut self, steps: impl Iterator<Item = Step>) -> Batch {
        self.last_at = self.last_at.max(self.clock.now());
        let event = |(position, step)| Event { position, at: self.last_at, step };
        (self.position..).zip(steps).map(event).collect()
    }
}
