//! What ends a prompt before its model does: somebody's word, the last reader's leaving, or its time.

use std::pin::Pin;
use std::time::Duration;

use domain::{EndCause, Ended, Failure, FailureKind, Outcome};
use tokio::time::sleep;

use crate::answer::Answer;
use crate::live::Live;

/// Watches over a prompt while it runs.
pub(crate) struct Halts<'a> {
    halt: Pin<Box<dyn Future<Output = Halt> + Send + 'a>>,
}

/// Why a prompt ends before its model does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Halt {
    Stopped(EndCause),
    OutOfTime(Duration),
}

impl<'a> Halts<'a> {
    /// The time of the prompt begins now.
    pub(crate) fn new(live: &'a Live, total: Duration) -> Self {
        let halt = async move {
            tokio::select! {
                cause = live.stopped() => Halt::Stopped(cause),
                () = sleep(total) => Halt::OutOfTime(total),
            }
        };
        Self { halt: Box::pin(halt) }
    }

    /// What the work comes to, unless the prompt is halted before. Then the work is dropped where it is.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Halt> {
        tokio::select! {
            biased;
            halt = &mut self.halt => Err(halt),
            done = work => Ok(done),
        }
    }
}

impl Halt {
    /// How the prompt ends, with what of its answer there is.
    pub(crate) fn end(self, answer: &Answer) -> Ended {
        match self {
            Self::Stopped(EndCause::Drain) => Ended::interrupted(EndCause::Drain),
            Self::Stopped(cause) => Ended { outcome: Outcome::Cancelled, cause },
            Self::OutOfTime(_) if answer.tokens > 0 => answer.cut_short(),
            Self::OutOfTime(total) => Ended {
                outcome: Outcome::Failed(Failure::new(
                    FailureKind::SilentAtStart,
                    format!("no answer within {} s (generation.total_seconds)", total.as_secs()),
                )),
                cause: EndCause::Limit,
            },
        }
    }
}
