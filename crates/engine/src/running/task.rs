//! The task of one prompt: runs the pipeline and writes exactly one terminal event, whatever happens inside.
//! The stream slot and the session are free before a reader sees that event.

use std::any::Any;
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
use crate::pipeline::Pipeline;
use crate::pipeline::generate::answer_builder::AnswerBuilder;
use crate::running::prompt::RunningPrompt;
use crate::running::writer::LogWriter;

/// A claimed prompt that is ready to run.
pub(crate) struct PromptTask {
    pub(crate) engine: Engine,
    pub(crate) prompt: Arc<RunningPrompt>,
    pub(crate) run: Run,
    pub(crate) provider: Arc<dyn Provider>,
    /// What the request's dialect does when nothing is found.
    pub(crate) when_nothing_found: WhenNothingFound,
    pub(crate) slot: OwnedSemaphorePermit,
}

impl PromptTask {
    /// Spawns the task; `accepted` was logged by the journal at `at`.
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
        let Self { engine, prompt, run, provider, when_nothing_found, slot } = self;
        let (question, follows) = (accepted.question.clone(), accepted.follows);
        let first_choice = accepted.first_choice.provider.clone();
        let mut answer = AnswerBuilder::new(&engine.shared.limits);
        let mut writer = LogWriter::new(&engine.shared, run, &accepted, at, prompt.log.clone());
        prompt.log.publish([accepted.event(at)].into());
        let pipeline =
            Pipeline::new(&engine, &prompt, provider, when_nothing_found, &mut answer, &mut writer);
        let ended = AssertUnwindSafe(pipeline.run(question, follows)).catch_unwind().await;
        let ended = ended.unwrap_or_else(|panic| panicked(&*panic));
        drop(slot);
        let (last, ended) = writer.finish(ended).await;
        // From here on a reader finds the prompt in the journal, ended.
        engine.shared.running.remove(prompt.id);
        prompt.log.publish(last);
        let (outcome, failure) = outcome_label(&ended);
        let (failure, reason) = (failure.map(|failure| debug(failure.kind)), failure.map(display));
        let took = engine.now().since(at).as_millis();
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

fn panicked(panic: &(dyn Any + Send)) -> Ended {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    error!(panic = text, "the task of a prompt panicked");
    let failure =
        Failure::new(FailureKind::Internal, "something is broken on our side; the log names this prompt");
    Ended { outcome: Outcome::Failed(failure), cause: EndCause::Bug }
}

/// The outcome under the name that the metrics use, and the failure if there is one.
fn outcome_label(ended: &Ended) -> (&'static str, Option<&Failure>) {
    match &ended.outcome {
        Outcome::Done(_) => ("done", None),
        Outcome::Cancelled => ("cancelled", None),
        Outcome::Failed(failure) => ("error", Some(failure)),
    }
}
