//! The stall timeout: the longest silence between two batches of an answer.

use std::pin::Pin;
use std::time::Duration;

use domain::{Failure, FailureKind};
use tokio::time::{Instant, Sleep, sleep};

/// Measures the silence since the last batch. A batch only notes its time and does not reset the timer; when
/// the timer fires, it continues from the last batch.
pub(super) struct StallTimer {
    timeout: Duration,
    last_batch_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl StallTimer {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, last_batch_at: Instant::now(), timer: Box::pin(sleep(timeout)) }
    }

    /// Measures from now on.
    pub(super) fn restart(&mut self) {
        self.last_batch_at = Instant::now();
    }

    /// Resolves to the failure of the provider once the timeout is over.
    pub(super) async fn elapsed(&mut self) -> Failure {
        loop {
            self.timer.as_mut().await;
            if self.last_batch_at.elapsed() >= self.timeout {
                let seconds = self.timeout.as_secs_f64();
                let message =
                    format!("the provider sent nothing for {seconds} s in the middle of its answer");
                return Failure::new(FailureKind::Stalled, message);
            }
            self.timer.as_mut().reset(self.last_batch_at + self.timeout);
        }
    }
}
