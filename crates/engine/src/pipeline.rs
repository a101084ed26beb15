//! The pipeline of one prompt, step by step: recall the conversation, rewrite, retrieve, compose, generate,
//! cite.
//!
//! Each step is a method of [`Pipeline`] in a file of the folder and appends its events to the prompt's log.
//! A step that fails or is stopped returns a [`StepError`], from which the terminal event is made here.

mod cite;
pub(crate) mod compose;
pub(crate) mod generate;
mod retrieve;
pub(crate) mod rewrite;
mod stop;

use std::sync::Arc;
use std::time::Duration;

use domain::{
    EndCause, Ended, Failure, FinishReason, Outcome, Passage, PromptId, Provider, Question, Retrieved,
    RetrievedPassages, SearchScope, Step, StorageError, Text, Turn, WhenNothingFound,
};

use crate::Engine;
use crate::pipeline::cite::citations;
use crate::pipeline::generate::answer_builder::AnswerBuilder;
use crate::pipeline::stop::{StopCause, StopSignal};
use crate::running::prompt::RunningPrompt;
use crate::running::writer::LogWriter;

/// The fixed answer when nothing was found and the model is not asked.
const NOTHING_FOUND: &str = "Nothing was found in the documents for this question.";

/// Upper bound on the earlier turns of the session that a prompt takes into account.
const HISTORY_TURNS: usize = 5;

/// One run of the pipeline.
pub(crate) struct Pipeline<'a> {
    engine: &'a Engine,
    prompt: &'a RunningPrompt,
    provider: Arc<dyn Provider>,
    /// What the request's dialect does when nothing is found.
    when_nothing_found: WhenNothingFound,
    stop: StopSignal<'a>,
    /// The passages in the model's request, once composed.
    passages: RetrievedPassages,
    answer: &'a mut AnswerBuilder,
    writer: &'a mut LogWriter,
}

/// Why a step ended the pipeline early.
enum StepError {
    Stopped(StopCause),
    Failed(Failure),
    JournalLost(StorageError),
}

impl<'a> Pipeline<'a> {
    /// A pipeline that is ready to run. The prompt's total timeout starts now.
    pub(crate) fn new(
        engine: &'a Engine,
        prompt: &'a RunningPrompt,
        provider: Arc<dyn Provider>,
        when_nothing_found: WhenNothingFound,
        answer: &'a mut AnswerBuilder,
        writer: &'a mut LogWriter,
    ) -> Self {
        let stop = StopSignal::new(prompt, engine.shared.limits.total);
        let passages = RetrievedPassages::default();
        Self { engine, prompt, provider, when_nothing_found, stop, passages, answer, writer }
    }

    /// Answers the question into the prompt's log, and returns the terminal event, which is not in the log
    /// yet. `follows` is the last prompt of the conversation that the question continues.
    pub(crate) async fn run(mut self, question: Question, follows: Option<PromptId>) -> Ended {
        let ended = match self.answer(question, follows).await {
            Ok(ended) => ended,
            Err(StepError::Stopped(cause)) => cause.end(self.answer),
            Err(StepError::Failed(failure)) => failed(failure),
            Err(StepError::JournalLost(reason)) => return journal_lost(&reason),
        };
        match self.cite(&ended).await {
            Ok(()) => ended,
            Err(reason) => journal_lost(&reason),
        }
    }

    async fn answer(&mut self, question: Question, follows: Option<PromptId>) -> Result<Ended, StepError> {
        let conversation = self.recall(&question.scope, follows).await?;
        let query = self.rewrite(&question, &conversation).await?;
        let Retrieved { passages: found, candidates, .. } = self.retrieve(&query, &question).await?;
        if found.is_empty() && self.answers_without_model() {
            return self.say_nothing_found().await;
        }
        self.stop.until_stopped(self.provider.ready()).await?;
        let count = found.len();
        let request = self.compose(question.text, conversation, &query, found);
        // Also logged if the retriever had candidates and none became a passage: the event says that the
        // model is next.
        if candidates > 0 {
            self.log_passages(count, &request.passages).await?;
        }
        self.generate(self.provider.stream(Arc::new(request))).await
    }

    /// The conversation that the question continues. A question about a selection has none: its only context
    /// is the selection, and earlier answers may quote the documents.
    async fn recall(
        &mut self,
        scope: &SearchScope,
        follows: Option<PromptId>,
    ) -> Result<Vec<Turn>, StepError> {
        let Some(last) = follows.filter(|_| matches!(scope, SearchScope::Knowledge(_))) else {
            return Ok(Vec::new());
        };
        let history = &self.engine.shared.ports.history;
        Ok(self.stop.until_stopped(history.thread(&self.prompt.principal, last, HISTORY_TURNS)).await??)
    }

    /// Whether a question for which nothing was found gets the fixed answer. The setting overrides the
    /// dialect.
    fn answers_without_model(&self) -> bool {
        let setting = self.engine.shared.answering.when_nothing_found;
        setting.unwrap_or(self.when_nothing_found) == WhenNothingFound::SaySo
    }

    async fn say_nothing_found(&mut self) -> Result<Ended, StepError> {
        self.answer.add_text(Text::from(NOTHING_FOUND));
        self.writer.append(self.answer.take_batch()).await?;
        Ok(Ended { outcome: Outcome::Done(FinishReason::Stop), cause: EndCause::Model })
    }

    /// Logs how many passages were found, and those in the model's request.
    async fn log_passages(&mut self, found: usize, in_prompt: &[Passage]) -> Result<(), StepError> {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        self.passages = RetrievedPassages { found, in_prompt: in_prompt.to_vec() };
        self.append(Step::Passages(Box::new(self.passages.clone()))).await
    }

    /// Logs the citations of an answer that is complete or cancelled and had passages to cite.
    async fn cite(&mut self, ended: &Ended) -> Result<(), StorageError> {
        let is_citable = matches!(ended.outcome, Outcome::Done(_) | Outcome::Cancelled);
        if !is_citable || self.passages.in_prompt.is_empty() || self.answer.text.is_empty() {
            return Ok(());
        }
        let citations = citations(&self.answer.text, &self.passages.in_prompt);
        self.writer.append(&mut vec![Step::Citations(citations.into())]).await
    }

    async fn append(&mut self, step: Step) -> Result<(), StepError> {
        Ok(self.writer.append(&mut vec![step]).await?)
    }
}

fn failed(failure: Failure) -> Ended {
    Ended { outcome: Outcome::Failed(failure), cause: EndCause::Model }
}

fn journal_lost(reason: &StorageError) -> Ended {
    tracing::error!(%reason, "a prompt was interrupted: its events cannot be written to the journal");
    Ended::interrupted(EndCause::Journal)
}

/// Rounds a stage's duration down to whole microseconds, the resolution of a stored log, so that a replay is
/// equal.
fn whole_micros(took: Duration) -> Duration {
    took.saturating_sub(Duration::from_nanos(u64::from(took.subsec_nanos() % 1000)))
}

impl From<StopCause> for StepError {
    fn from(cause: StopCause) -> Self {
        Self::Stopped(cause)
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<StorageError> for StepError {
    fn from(reason: StorageError) -> Self {
        Self::JournalLost(reason)
    }
}
