//! The task of one prompt: whatever happens inside, its log gets exactly one terminal event, and its
//! stream slot and session are free before a reader can see it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use domain::{
    Accepted, EndCause, Ended, Failure, FailureKind, Outcome, Provider, Run, Timestamp, WhenNothingFound,
};
use futures::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tracing::field::{debug, display};
use tracing::{Instrument, error, info, info_span};

use crate::Engine;
use crate::answer::Answer;
use crate::live::Live;
use crate::way::Work;
use crate::writer::Writer;

/// A prompt that was claimed.
pub(crate) struct Task {
    pub(crate) engine: Engine,
    pub(crate) live: Arc<Live>,
    pub(crate) run: Run,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) when_nothing_found: WhenNothingFound,
    pub(crate) slot: OwnedSemaphorePermit,
}

impl Task {
    pub(crate) fn spawn(self, accepted: Box<Accepted>, at: Timestamp) {
        let tasks = self.engine.shared.tasks.clone();
        let span = info_span!(
            "prompt",
            prompt = %accepted.prompt,
            session = %accepted.session,
            trace = %accepted.trace,
            key = accepted.key,
        );
        tasks.spawn(self.run(accepted, at).instrument(span));
    }

    async fn run(self, accepted: Box<Accepted>, at: Timestamp) {
        let Self { engine, live, run, provider, when_nothing_found, slot } = self;
        let ports = &engine.shared.ports;
        let first_choice = accepted.first_choice.provider.clone();
        let work = Work { accepted: accepted.clone(), when_nothing_found, provider };
        let mut answer = Answer::new(&engine.shared.limits);
        let mut writer = Writer::new(&engine.shared, run, &accepted, at, live.log.clone());
        live.log.publish([accepted.event(at)].into());
        let generated = engine.answer(&live, work, &mut answer, &mut writer);
        let ended = AssertUnwindSafe(generated).catch_unwind().await.unwrap_or_else(|panic| broken(&*panic));
        drop(slot);
        let (last, ended) = writer.finish(ended).await;
        // From here on whoever looks for the prompt finds it in the journal, ended.
        engine.shared.running.remove(live.prompt);
        live.log.publish(last);
        let (outcome, failure) = outcome(&ended);
        let (failure, reason) = (failure.map(|failure| debug(failure.kind)), failure.map(display));
        let took = ports.clock.now().since(at).as_millis();
        info!(
            provider = answer.model.as_ref().map_or(&*first_choice, |model| &*model.provider),
            outcome,
            cause = ?ended.cause,
            failure,
            reason,
            tokens = answer.tokens,
            milliseconds = u64::try_from(took).unwrap_or(u64::MAX),
            "prompt ended"
        );
    }
}

fn broken(panic: &(dyn std::any::Any + Send)) -> Ended {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    error!(panic = text, "the task of a prompt panicked");
    let failure =
        Failure::new(FailureKind::Internal, "something is broken on our side; the log names this prompt");
    Ended { outcome: Outcome::Failed(failure), cause: EndCause::Bug }
}

/// How it ended, in the words of the metrics, and why if it failed.
fn outcome(ended: &Ended) -> (&'static str, Option<&Failure>) {
    match &ended.outcome {
        Outcome::Done(_) => ("done", None),
        Outcome::Cancelled => ("cancelled", None),
        Outcome::Failed(failure) => ("error", Some(failure)),
    }
}
