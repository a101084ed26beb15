//! From the provider's stream to the log. The hot path: what happens here happens per batch, not per token.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use domain::{Ended, Failure, FailureKind, ModelStream};
use futures::StreamExt;
use tokio::time::{Instant, sleep};

use crate::Engine;
use crate::answer::Answer;
use crate::halt::Halts;
use crate::way::{Stop, failed};
use crate::writer::Writer;

impl Engine {
    /// Generates an answer into the log, until it ends or is halted. The provider's call is closed when
    /// this returns. A write to the journal is never cut short: halting happens between batches.
    pub(crate) async fn generate(
        &self,
        mut stream: ModelStream,
        halts: &mut Halts<'_>,
        answer: &mut Answer,
        writer: &mut Writer,
    ) -> Result<Ended, Stop> {
        let mut silence = Silence::new(self.shared.limits.stall);
        loop {
            let next = halts.unless(async {
                tokio::select! {
                    biased;
                    end = poll_fn(|cx| poll_batch(&mut stream, answer, cx)) => end,
                    // Before the first content the provider's order keeps the time.
                    failure = silence.too_long(), if answer.has_begun => Some(failed(failure)),
                }
            });
            let end = next.await?;
            silence.broken();
            if !answer.steps.is_empty() {
                writer.append(answer.take_batch()).await?;
            }
            if let Some(ended) = end {
                return Ok(ended);
            }
        }
    }
}

/// Takes what the provider has ready: a batch, or the end, or both.
fn poll_batch(stream: &mut ModelStream, answer: &mut Answer, cx: &mut Context<'_>) -> Poll<Option<Ended>> {
    while !answer.batch_is_full() {
        let end = match stream.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(event))) => answer.take(event),
            Poll::Ready(Some(Err(failure))) => Some(failed(failure)),
            Poll::Ready(None) => {
                Some(failed(Failure::new(FailureKind::Died, "the provider's answer broke off")))
            }
            Poll::Pending if answer.steps.is_empty() => return Poll::Pending,
            Poll::Pending => return Poll::Ready(None),
        };
        if end.is_some() {
            return Poll::Ready(end);
        }
    }
    Poll::Ready(None)
}

/// Watches over the silence between batches. The timer is not reset for each of them: it fires, looks at
/// when the last one came, and goes on from there.
struct Silence {
    bound: Duration,
    since: Instant,
    timer: Pin<Box<tokio::time::Sleep>>,
}

impl Silence {
    fn new(bound: Duration) -> Self {
        Self { bound, since: Instant::now(), timer: Box::pin(sleep(bound)) }
    }

    fn broken(&mut self) {
        self.since = Instant::now();
    }

    async fn too_long(&mut self) -> Failure {
        loop {
            self.timer.as_mut().await;
            if self.since.elapsed() >= self.bound {
                let seconds = self.bound.as_secs();
                let message =
                    format!("the provider sent nothing for {seconds} s in the middle of its answer");
                return Failure::new(FailureKind::Stalled, message);
            }
            self.timer.as_mut().reset(self.since + self.bound);
        }
    }
}
