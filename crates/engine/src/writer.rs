//! The one writer of a running log: positions without a gap, times that never go back, durable before
//! visible, exactly one terminal event.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use domain::{Accepted, Batch, Clock, EndCause, Ended, Event, Journal, Run, Step, StorageError, Timestamp};
use futures::FutureExt;
use tracing::error;

use crate::Shared;
use crate::log::Log;
use crate::measured::{Measured, Tally};

pub(crate) struct Writer {
    run: Run,
    log: Arc<Log>,
    journal: Arc<dyn Journal>,
    clock: Arc<dyn Clock>,
    measured: Arc<Measured>,
    tally: Tally,
    position: u64,
    last_at: Timestamp,
}

impl Writer {
    /// A writer behind the first event, which came with the claim.
    pub(crate) fn new(shared: &Shared, run: Run, accepted: &Accepted, at: Timestamp, log: Arc<Log>) -> Self {
        Self {
            run,
            log,
            journal: shared.ports.journal.clone(),
            clock: shared.ports.clock.clone(),
            measured: shared.measured.clone(),
            tally: Tally::new(accepted, at),
            position: 1,
            last_at: at,
        }
    }

    /// Appends the steps as one batch, and empties `steps`.
    pub(crate) async fn append(&mut self, steps: &mut Vec<Step>) -> Result<(), StorageError> {
        let batch = self.batch(steps.drain(..));
        self.journal.append(&self.run, batch.clone()).await?;
        self.position += batch.len() as u64;
        self.tally.add(&batch, &mut self.measured.totals());
        self.log.publish(batch);
        Ok(())
    }

    /// Hands the end to the journal, and gives back what readers are to be told: the same, or what recovery
    /// would write if the journal will not take it.
    pub(crate) async fn finish(mut self, ended: Ended) -> (Batch, Ended) {
        let last = self.batch([Step::Ended(Box::new(ended.clone()))].into_iter());
        let finished = AssertUnwindSafe(self.journal.finish(self.run, last.clone())).catch_unwind().await;
        let finished = finished.unwrap_or_else(|_| Err(StorageError::other("it panicked".to_owned())));
        let (last, ended) = match finished {
            Ok(()) => (last, ended),
            Err(reason) => {
                error!(%reason, "the journal did not take the end of a prompt");
                let told = Ended::interrupted(EndCause::Journal);
                let event = Event { step: Step::Ended(Box::new(told.clone())), ..last[0].clone() };
                ([event].into(), told)
            }
        };
        self.tally.add(&last, &mut self.measured.totals());
        (last, ended)
    }

    fn batch(&mut self, steps: impl Iterator<Item = Step>) -> Batch {
        self.last_at = self.last_at.max(self.clock.now());
        let event = |(position, step)| Event { position, at: self.last_at, step };
        (self.position..).zip(steps).map(event).collect()
    }
}
