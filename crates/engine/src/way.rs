//! The way of one prompt, step by step: remember, rewrite, retrieve, compose, generate, cite. Whatever ends it early is told here.

use std::sync::Arc;

use domain::{
    Accepted, EndCause, Ended, Failure, FinishReason, Outcome, Passage, Provider, Retrieved,
    RetrievedPassages, SearchScope, Step, StorageError, Text, WhenNothingFound,
};

use crate::Engine;
use crate::answer::Answer;
use crate::cite::citations;
use crate::halt::{Halt, Halts};
use crate::live::Live;
use crate::writer::Writer;

/// What is said when nothing was found and no model is asked.
pub(crate) const NOTHING_FOUND: &str = "Nothing was found in the documents for this question.";

/// What a prompt asks, and whom.
pub(crate) struct Work {
    pub(crate) accepted: Box<Accepted>,
    pub(crate) when_nothing_found: WhenNothingFound,
    pub(crate) provider: Arc<dyn Provider>,
}

/// Why a prompt ends before its model does.
pub(crate) enum Stop {
    Halted(Halt),
    Failed(Failure),
    LostJournal(StorageError),
}

impl Engine {
    /// Answers a prompt into its log, and tells how it ends.
    pub(crate) async fn answer(
        &self,
        live: &Live,
        work: Work,
        answer: &mut Answer,
        writer: &mut Writer,
    ) -> Ended {
        let mut halts = Halts::new(live, self.shared.limits.total);
        let mut passages = RetrievedPassages::default();
        let ended = match self.go(live, work, &mut halts, &mut passages, answer, writer).await {
            Ok(ended) => ended,
            Err(Stop::Halted(halt)) => halt.end(answer),
            Err(Stop::Failed(failure)) => failed(failure),
            Err(Stop::LostJournal(reason)) => return lost_journal(&reason),
        };
        match cite(&passages, answer, &ended, writer).await {
            Ok(()) => ended,
            Err(reason) => lost_journal(&reason),
        }
    }

    async fn go(
        &self,
        live: &Live,
        work: Work,
        halts: &mut Halts<'_>,
        passages: &mut RetrievedPassages,
        answer: &mut Answer,
        writer: &mut Writer,
    ) -> Result<Ended, Stop> {
        let Accepted { question, follows, .. } = *work.accepted;
        let conversation = match question.scope {
            SearchScope::Knowledge(_) => halts.unless(self.remember(&live.who, follows)).await??,
            // Only the selection is context: what was said before may quote the documents.
            SearchScope::Selection(_) => Vec::new(),
        };
        let query = self.rewrite(&question, &conversation, &work.provider, halts, writer).await?;
        let Retrieved { passages: found, candidates, .. } =
            self.retrieve(live, &query, &question, halts, writer).await?;
        let count = found.len();
        if found.is_empty() && self.says_so(work.when_nothing_found) {
            return say_nothing_found(answer, writer).await;
        }
        halts.unless(work.provider.ready()).await?;
        let request = self.compose(question.text, conversation, &query, found, &work.provider);
        // Also told if none of what was looked at came to be a passage: whoever watches sees that the model is next.
        if candidates > 0 {
            let found = u32::try_from(count).unwrap_or(u32::MAX);
            let logged = |passage: &Passage| Passage { before: String::new(), ..passage.clone() };
            *passages = RetrievedPassages { found, in_prompt: request.passages.iter().map(logged).collect() };
            writer.append(&mut vec![Step::Passages(Box::new(passages.clone()))]).await?;
        }
        let stream = work.provider.stream(Arc::new(request));
        self.generate(stream, halts, answer, writer).await
    }

    /// Whether a question for which nothing was found is answered with just that.
    fn says_so(&self, dialect: WhenNothingFound) -> bool {
        self.shared.answering.when_nothing_found.unwrap_or(dialect) == WhenNothingFound::SaySo
    }
}

async fn say_nothing_found(answer: &mut Answer, writer: &mut Writer) -> Result<Ended, Stop> {
    answer.say(Text::from(NOTHING_FOUND));
    writer.append(answer.take_batch()).await?;
    Ok(Ended { outcome: Outcome::Done(FinishReason::Stop), cause: EndCause::Model })
}

/// Tells which passages the answer rests on, unless there is none worth citing.
async fn cite(
    passages: &RetrievedPassages,
    answer: &Answer,
    ended: &Ended,
    writer: &mut Writer,
) -> Result<(), StorageError> {
    let is_kept = matches!(ended.outcome, Outcome::Done(_) | Outcome::Cancelled);
    if !is_kept || passages.in_prompt.is_empty() || answer.text.is_empty() {
        return Ok(());
    }
    let citations = citations(&answer.text, &passages.in_prompt);
    writer.append(&mut vec![Step::Citations(citations.into())]).await
}

pub(crate) fn failed(failure: Failure) -> Ended {
    Ended { outcome: Outcome::Failed(failure), cause: EndCause::Model }
}

fn lost_journal(reason: &StorageError) -> Ended {
    tracing::error!(%reason, "a prompt lost its journal");
    Ended::interrupted(EndCause::Journal)
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halted(halt)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<StorageError> for Stop {
    fn from(reason: StorageError) -> Self {
        Self::LostJournal(reason)
    }
}
