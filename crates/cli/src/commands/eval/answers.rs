//! How good answers are: every question is asked the way a client's is, in a session of its own, and what comes is held
//! against what good answers say.

mod earlier;
mod judge;
mod report;

use std::collections::HashMap;
use std::fs::File;
use std::future::poll_fn;
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use domain::{
    Ask, Citation, DocumentId, Event, ModelId, NewSession, OnDisconnect, Outcome, Passage, Principal,
    Rejection, SearchScope, SessionPolicy, Step, TraceId, WhenNothingFound,
};
use engine::Engine;
use futures::stream::{self, StreamExt};
use serde_json::json;

use super::collection::{Collection, Question, Reference};
use earlier::Earlier;
use judge::{has_fact, is_refusal, token_f1};
pub(super) use report::Answers;

/// As many passages as a client gets that does not say how many.
const PASSAGES: u32 = 5;

/// Which questions are asked, and how.
#[derive(Args, Debug)]
pub(super) struct Asked {
    /// Measures the answers too, against answers.jsonl (_id, answerable, answers, facts)
    #[arg(long)]
    pub(super) answers: bool,
    /// Which questions are asked for answers: those on even or on odd lines, counted from 0
    #[arg(long, value_enum, requires = "answers")]
    half: Option<Half>,
    /// Asks for answers only to questions that the documents answer
    #[arg(long, requires = "answers")]
    answerable: bool,
    /// How many questions are asked for answers at most, taken evenly from all of them
    #[arg(long, value_name = "N", requires = "answers", value_parser = clap::value_parser!(u32).range(1..))]
    most: Option<u32>,
    /// Asks for answers without any documents, to tell what the model knows by itself
    #[arg(long, requires = "answers")]
    pub(super) without_documents: bool,
    /// How many questions are asked at once; more than one takes less time in all, but each waits for the others
    #[arg(long, value_name = "N", requires = "answers", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    at_once: u8,
    /// Where every answer is written, one JSON a line
    #[arg(long, value_name = "FILE", requires = "answers")]
    record: Option<PathBuf>,
    /// Also tells how much better the F1 of each answer is than the one in a file that --record has written
    #[arg(long, value_name = "FILE", requires = "answers")]
    against: Option<PathBuf>,
}

/// Half of the questions: one for choosing settings, the other for reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Half {
    /// Lines 0, 2, 4, …
    Even,
    /// Lines 1, 3, 5, …
    Odd,
}

impl Asked {
    fn questions<'a>(
        &self,
        collection: &'a Collection,
        references: &HashMap<String, Reference>,
    ) -> Vec<&'a Question> {
        let in_half = |line: usize| match self.half {
            Some(Half::Even) => line.is_multiple_of(2),
            Some(Half::Odd) => !line.is_multiple_of(2),
            None => true,
        };
        // What has no reference is told when it is asked.
        let is_answerable =
            |question: &Question| references.get(&question.id).is_none_or(|reference| reference.answerable);
        let questions = collection.questions.iter().enumerate();
        let questions = questions.filter(|(line, _)| in_half(*line)).map(|(_, question)| question);
        let questions: Vec<_> =
            questions.filter(|question| !self.answerable || is_answerable(question)).collect();
        let most = self.most.map_or(questions.len(), |most| questions.len().min(most as usize));
        (0..most).map(|place| questions[place * questions.len() / most]).collect()
    }
}

/// An answer, and what is known about it.
#[derive(Default)]
struct Answer {
    text: String,
    model: Option<ModelId>,
    passages: Vec<Passage>,
    citations: Vec<Citation>,
    first_token: Option<Duration>,
    outcome: Option<Outcome>,
}

impl Answer {
    fn take(&mut self, event: &Event, began: Instant) {
        match &event.step {
            Step::Text(text) => {
                self.first_token.get_or_insert_with(|| began.elapsed());
                self.text.push_str(text);
            }
            Step::Started(model) => self.model = Some(model.clone()),
            Step::Passages(passages) => self.passages.clone_from(&passages.in_prompt),
            Step::Citations(citations) => self.citations = citations.to_vec(),
            Step::Ended(ended) => self.outcome = Some(ended.outcome.clone()),
            Step::Accepted(_)
            | Step::Stage(_)
            | Step::Rewritten(_)
            | Step::Reasoning(_)
            | Step::ToolCall(_)
            | Step::Usage(_) => {}
        }
    }

    /// The documents of the passages that it rests on.
    fn cited(&self) -> impl Iterator<Item = DocumentId> {
        let passage = |citation: &Citation| self.passages.get((citation.number as usize).checked_sub(1)?);
        self.citations.iter().filter_map(passage).map(|passage| passage.document)
    }
}

/// What is measured of one answer.
struct Verdict {
    answerable: bool,
    /// Against the best of the references; none without one.
    f1: Option<f64>,
    /// How much better that is than an earlier answer's; none without one.
    better: Option<f64>,
    /// Whether it has the fact; none where none is known.
    fact: Option<bool>,
    /// Whether a passage that the model was given has it.
    fact_is_given: bool,
    refusal: bool,
    /// How many passages it rests on, and how many of them are of a document that answers the question.
    cited: (usize, usize),
    /// Whether it names passages by their numbers.
    markers: bool,
    words: usize,
    first_token: Duration,
}

impl Verdict {
    fn new(question: &Question, reference: &Reference, earlier: &Earlier, answer: &Answer) -> Self {
        let best = reference.answers.iter().map(|given| token_f1(&answer.text, given)).reduce(f64::max);
        let f1 = best.filter(|_| reference.answerable);
        let is_right =
            |document: &DocumentId| question.judgements.get(document).is_some_and(|grade| *grade > 0);
        Self {
            answerable: reference.answerable,
            f1,
            better: earlier.better(&question.id, f1),
            fact: (!reference.facts.is_empty()).then(|| has_fact(&answer.text, &reference.facts)),
            fact_is_given: answer.passages.iter().any(|passage| has_fact(&passage.text, &reference.facts)),
            refusal: is_refusal(&answer.text),
            cited: (answer.cited().count(), answer.cited().filter(is_right).count()),
            markers: judge::has_marker(&answer.text),
            words: answer.text.split_whitespace().count(),
            first_token: answer.first_token.unwrap_or_default(),
        }
    }
}

/// Asks the questions, in their order.
pub(super) async fn measure(
    asked: &Asked,
    collection: &Collection,
    references: &HashMap<String, Reference>,
    engine: &Engine,
) -> Result<Answers, String> {
    let mut record = match &asked.record {
        Some(path) => Some(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None => None,
    };
    let earlier = asked.against.as_deref().map(Earlier::read).transpose()?.unwrap_or_default();
    let mut answers = Answers::default();
    let questions = asked.questions(collection, references).into_iter();
    let asking = stream::iter(questions.map(async |question| (question, ask(engine, &question.text).await)));
    let mut asking = pin!(asking.buffered(asked.at_once.into()));
    while let Some((question, answer)) = asking.next().await {
        let reference = references.get(&question.id);
        let reference =
            reference.ok_or_else(|| format!("answers.jsonl: nothing for question {:?}", question.id))?;
        let answer = answer.map_err(|rejection| format!("{:?}: {rejection}", question.text))?;
        if let Some(Outcome::Failed(failure)) = &answer.outcome {
            return Err(format!("{:?}: {}", question.text, failure.message));
        }
        let verdict = Verdict::new(question, reference, &earlier, &answer);
        if let Some(file) = &mut record {
            let line = recorded(question, &answer, &verdict);
            writeln!(file, "{line}").map_err(|error| format!("--record: {error}"))?;
        }
        answers.take(&answer, verdict);
    }
    Ok(answers)
}

/// Asks as a client does who waits for the end.
async fn ask(engine: &Engine, text: &str) -> Result<Answer, Rejection> {
    let who = Principal::local();
    let session = engine.start_session(&who, NewSession::default()).await?.id;
    let question = domain::Question {
        text: text.to_owned(),
        top_k: PASSAGES,
        scope: SearchScope::default(),
        threshold: None,
        provider: None,
    };
    let ask = Ask {
        session,
        session_policy: SessionPolicy::RequireActive,
        question,
        when_nothing_found: WhenNothingFound::Answer,
        on_disconnect: OnDisconnect::Cancel,
        key: None,
        trace: TraceId::random(),
    };
    let (began, mut answer) = (Instant::now(), Answer::default());
    let mut reader = engine.submit(&who, ask).await?;
    while let Some(batch) = poll_fn(|context| reader.poll_next(context)).await {
        batch.iter().for_each(|event| answer.take(event, began));
    }
    Ok(answer)
}

fn recorded(question: &Question, answer: &Answer, verdict: &Verdict) -> serde_json::Value {
    let passages = answer.passages.iter().map(|passage| json!([passage.file_path, passage.text]));
    json!({
        "_id": question.id,
        "question": question.text,
        "answer": answer.text,
        "answerable": verdict.answerable,
        "refusal": verdict.refusal,
        "f1": verdict.f1,
        "fact": verdict.fact,
        "fact_is_given": verdict.fact_is_given,
        "cited": answer.citations.iter().map(|citation| citation.number).collect::<Vec<_>>(),
        "rightly_cited": verdict.cited.1,
        "first_token_ms": verdict.first_token.as_millis(),
        "passages": passages.collect::<Vec<_>>(),
    })
}
