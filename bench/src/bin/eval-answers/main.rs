//! The quality of answers: each question of a collection is asked in a session of its own, as a client asks it, and the
//! answer is compared with reference answers. `make eval-answers` runs it for several models.

mod earlier;
mod figures;
mod judge;
mod selection;

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;

use bench::collection::{self, Question, ReferenceAnswer};
use bench::evaluated::{Answer, EvaluatedServer};
use clap::Parser;
use futures::stream::{self, StreamExt};
use serde_json::json;

use earlier::EarlierAnswers;
use figures::AnswerFigures;
use judge::Verdict;
use selection::Selection;

/// Asks the questions of a collection, and compares the answers with references.
#[derive(Parser)]
struct Arguments {
    /// The folder with corpus.jsonl, queries.jsonl, qrels.tsv and answers.jsonl (_id, answerable, answers, facts)
    collection: PathBuf,
    /// The model: one of this process, or "quotes" [default: the providers that the environment configures]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// Asks without any documents, which shows what the model knows by itself
    #[arg(long)]
    without_documents: bool,
    /// Questions asked at once: faster in all, but each waits for the others
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    at_once: u8,
    /// Writes every answer into a file, one JSON a line
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Also compares the F1 of each answer with the one in a file that --record has written
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let documents = collection::documents(&arguments.collection);
    let questions = collection::questions(&arguments.collection, &documents);
    let references = collection::reference_answers(&arguments.collection);
    let documents = if arguments.without_documents { Vec::new() } else { documents };
    let server = EvaluatedServer::start(&documents, &settings(arguments.model.as_deref())).await;
    let questions = arguments.selection.select(&questions, &references);
    let figures = ask_all(&arguments, &server, questions, &references).await;
    print!("{}", if arguments.json { figures.json() } else { figures.table() });
}

fn settings(model: Option<&str>) -> Vec<(&str, &str)> {
    let (kind, name) = ("WELLSPRING__PROVIDERS__LOCAL__KIND", "WELLSPRING__PROVIDERS__LOCAL__MODEL");
    match model {
        None => Vec::new(),
        Some("quotes") => vec![(kind, "quotes")],
        Some(model) => vec![(kind, "embedded"), (name, model)],
    }
}

async fn ask_all(
    arguments: &Arguments,
    server: &EvaluatedServer,
    questions: Vec<&Question>,
    references: &HashMap<String, ReferenceAnswer>,
) -> AnswerFigures {
    let mut record = arguments.record.as_ref().map(|path| File::create(path).expect("--record: a new file"));
    let earlier = arguments.against.as_deref().map(EarlierAnswers::read).unwrap_or_default();
    let mut figures = AnswerFigures::default();
    let asking = stream::iter(questions.into_iter().map(async |question| {
        let Some(reference) = references.get(&question.id) else {
            panic!("answers.jsonl: nothing for question {:?}", question.id);
        };
        (question, reference, server.ask(&question.text).await)
    }));
    let mut asking = pin!(asking.buffered(arguments.at_once.into()));
    while let Some((question, reference, answer)) = asking.next().await {
        let verdict = Verdict::new(question, reference, &earlier, &answer);
        if let Some(file) = &mut record {
            writeln!(file, "{}", recorded(question, &answer, &verdict)).expect("--record: the disk has room");
        }
        figures.add(&answer, verdict);
    }
    figures
}

fn recorded(question: &Question, answer: &Answer, verdict: &Verdict) -> serde_json::Value {
    let cited = answer.sources.iter().filter(|source| source.cited).map(|source| source.index);
    let passages = answer.sources.iter().map(|source| json!([source.file_path, source.excerpt]));
    json!({
        "_id": question.id,
        "question": question.text,
        "answer": answer.text,
        "answerable": verdict.answerable,
        "refusal": verdict.refusal,
        "f1": verdict.f1,
        "fact": verdict.fact,
        "fact_is_given": verdict.fact_is_given,
        "cited": cited.collect::<Vec<_>>(),
        "rightly_cited": verdict.rightly_cited,
        "first_token_ms": verdict.first_token.as_millis(),
        "passages": passages.collect::<Vec<_>>(),
    })
}
