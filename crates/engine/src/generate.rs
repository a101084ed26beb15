//! From the provider's stream to the log. The hot path: what happens here happens per batch, not per token.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use domain::{Cause, Ended, Failure, FailureKind, ModelStream, Outcome, PromptId, Provider};
use futures::StreamExt;
use tokio::time::{Instant, sleep};

use crate::Engine;
use crate::answer::Answer;
use crate::live::Live;
use crate::writer::Writer;

/// What is generated.
pub(crate) struct Work {
    pub(crate) question: String,
    pub(crate) follows: Option<PromptId>,
    pub(crate) provider: Arc<dyn Provider>,
}

impl Engine {
    /// Generates an answer into the log, until it ends or is halted. The provider's call is closed when
    /// this returns. A write to the journal is never cut short: halting happens between batches.
    pub(crate) async fn generate(
        &self,
        live: &Live,
        work: Work,
        answer: &mut Answer,
        writer: &mut Writer,
    ) -> Ended {
        let limits = &self.shared.limits;
        let mut halted = pin!(halted(live, limits.total));
        let composed = tokio::select! {
            biased;
            halt = &mut halted => return halt.end(answer, limits.total),
            composed = self.compose(&live.who, work.question, work.follows) => composed,
        };
        let mut stream = match composed {
            Ok(request) => work.provider.stream(Arc::new(request)),
            Err(reason) => return lost_journal(&reason),
        };
        let mut silence = Silence::new(limits.stall);
        loop {
            let end = tokio::select! {
                biased;
                halt = &mut halted => return halt.end(answer, limits.total),
                end = poll_fn(|cx| poll_batch(&mut stream, answer, cx)) => end,
                // Before the first content the provider's order keeps the time.
                failure = silence.too_long(), if answer.has_begun => Some(failed(failure)),
            };
            silence.broken();
            if !answer.steps.is_empty()
                && let Err(reason) = writer.append(answer.take_batch()).await
            {
                return lost_journal(&reason);
            }
            if let Some(ended) = end {
                return ended;
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

/// Why a prompt ends before its model does.
enum Halt {
    Stopped(Cause),
    OutOfTime,
}

async fn halted(live: &Live, total: Duration) -> Halt {
    tokio::select! {
        cause = live.stopped() => Halt::Stopped(cause),
        () = sleep(total) => Halt::OutOfTime,
    }
}

impl Halt {
    fn end(self, answer: &Answer, total: Duration) -> Ended {
        match self {
            Self::Stopped(Cause::Drain) => Ended::interrupted(Cause::Drain),
            Self::Stopped(cause) => Ended { outcome: Outcome::Cancelled, cause },
            Self::OutOfTime if answer.tokens > 0 => answer.cut_short(),
            Self::OutOfTime => Ended {
                outcome: Outcome::Failed(Failure::new(
                    FailureKind::SilentAtStart,
                    format!("no answer within {} s (generation.total_seconds)", total.as_secs()),
                )),
                cause: Cause::Limit,
            },
        }
    }
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

fn failed(failure: Failure) -> Ended {
    Ended { outcome: Outcome::Failed(failure), cause: Cause::Model }
}

fn lost_journal(reason: &domain::StorageError) -> Ended {
    tracing::error!(%reason, "a prompt lost its journal");
    Ended::interrupted(Cause::Journal)
}
