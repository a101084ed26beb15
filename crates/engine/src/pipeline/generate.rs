//! The generate step: from the provider's stream to the log. This is the hot path: its work is done per
//! batch, not per token.

pub(crate) mod answer_builder;
mod stall;

use std::future::poll_fn;
use std::task::{Context, Poll};

use domain::{Ended, Failure, FailureKind, ModelStream};
use futures::StreamExt;

use crate::pipeline::generate::answer_builder::AnswerBuilder;
use crate::pipeline::generate::stall::StallTimer;
use crate::pipeline::{Pipeline, StepError, failed};

impl Pipeline<'_> {
    /// Streams the model's answer into the log until it ends, fails, stalls or is stopped. The provider's
    /// call is closed on return. Batches are written outside of `until_stopped`, so that a stop never cuts a
    /// write short.
    pub(super) async fn generate(&mut self, mut stream: ModelStream) -> Result<Ended, StepError> {
        let Self { engine, stop, answer, writer, .. } = self;
        let mut stall = StallTimer::new(engine.shared.limits.stall);
        loop {
            let next = stop.until_stopped(async {
                tokio::select! {
                    biased;
                    end = poll_fn(|cx| poll_batch(&mut stream, answer, cx)) => end,
                    // Until the answer begins, the provider applies its first-token timeout.
                    failure = stall.elapsed(), if answer.has_begun => Some(failed(failure)),
                }
            });
            let end = next.await?;
            stall.restart();
            if !answer.steps.is_empty() {
                writer.append(answer.take_batch()).await?;
            }
            if let Some(ended) = end {
                return Ok(ended);
            }
        }
    }
}

/// Takes what the provider has ready, up to one batch. Resolves to the terminal event if that was the end;
/// pending only if nothing at all is ready.
fn poll_batch(
    stream: &mut ModelStream,
    answer: &mut AnswerBuilder,
    cx: &mut Context<'_>,
) -> Poll<Option<Ended>> {
    while !answer.batch_is_full() {
        let end = match stream.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(event))) => answer.add(event),
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
