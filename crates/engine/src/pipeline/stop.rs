//! What stops a prompt before its model does: a request to stop, the disconnect of its last reader, or its
//! total timeout.

use std::pin::Pin;
use std::time::Duration;

use domain::{EndCause, Ended, Failure, FailureKind, Outcome};
use tokio::time::sleep;

use crate::pipeline::generate::answer_builder::AnswerBuilder;
use crate::running::prompt::RunningPrompt;

/// Resolves when a running prompt has to stop.
pub(super) struct StopSignal<'a> {
    cause: Pin<Box<dyn Future<Output = StopCause> + Send + 'a>>,
}

/// Why a prompt stops before its model does.
#[derive(Clone, Copy, Debug)]
pub(super) enum StopCause {
    /// The prompt was asked to stop, or its last reader's grace period is over.
    Requested(EndCause),
    /// The total timeout, which is this long, is over.
    TimedOut(Duration),
}

impl<'a> StopSignal<'a> {
    /// The signal of a prompt whose total timeout starts now.
    pub(super) fn new(prompt: &'a RunningPrompt, total: Duration) -> Self {
        let cause = async move {
            tokio::select! {
                cause = prompt.wait_for_stop() => StopCause::Requested(cause),
                () = sleep(total) => StopCause::TimedOut(total),
            }
        };
        Self { cause: Box::pin(cause) }
    }

    /// Awaits the work, or drops it unfinished when the prompt has to stop.
    pub(super) async fn until_stopped<T>(&mut self, work: impl Future<Output = T>) -> Result<T, StopCause> {
        tokio::select! {
            biased;
            cause = &mut self.cause => Err(cause),
            done = work => Ok(done),
        }
    }
}

impl StopCause {
    /// The terminal event of a stopped prompt. An answer that had begun when the time was over counts as
    /// complete.
    pub(super) fn end(self, answer: &AnswerBuilder) -> Ended {
        match self {
            Self::Requested(EndCause::Drain) => Ended::interrupted(EndCause::Drain),
            Self::Requested(cause) => Ended { outcome: Outcome::Cancelled, cause },
            Self::TimedOut(_) if answer.tokens > 0 => answer.end_at_limit(),
            Self::TimedOut(total) => Ended {
                outcome: Outcome::Failed(Failure::new(
                    FailureKind::SilentAtStart,
                    format!("no answer within {} s (generation.total_seconds)", total.as_secs_f64()),
                )),
                cause: EndCause::Limit,
            },
        }
    }
}
