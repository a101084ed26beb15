//! The quality of retrieval for the questions of conversations: as asked, as the engine rewrites follow-up questions, and as
//! people wrote them to stand alone. A passage is right if it is of the right document and has the fact that answers the
//! question. `make eval-dialogues` runs it.

mod report;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench::collection::{self, CollectionDocument, has_fact};
use bench::evaluated::EvaluatedServer;
use clap::Parser;
use domain::Turn;
use serde::Deserialize;

use report::DialogueReport;

/// Measures retrieval for the questions of conversations.
#[derive(Parser)]
struct Arguments {
    /// The folder with corpus.jsonl and dialogues.jsonl
    collection: PathBuf,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Settings of a server that loads no chat model: only queries are sent.
const WITHOUT_MODEL: [(&str, &str); 2] =
    [("WELLSPRING__PROVIDERS__QUOTES__KIND", "quotes"), ("WELLSPRING__GENERATION__PROVIDERS", "quotes")];

/// Passages of a query, as many as a client gets by default.
const PASSAGES: usize = 5;

/// A line of `dialogues.jsonl`.
#[derive(Debug, Deserialize)]
struct Dialogue {
    #[serde(rename = "_id")]
    id: String,
    turns: Vec<DialogueTurn>,
}

#[derive(Debug, Deserialize)]
struct DialogueTurn {
    question: String,
    /// The question as it would stand alone; `None` if it does.
    standalone: Option<String>,
    /// The `_id` of the document that answers it.
    document: String,
    /// What answers it, in the words of the document.
    facts: Vec<String>,
    /// The answer, which the next question may refer to.
    #[serde(default)]
    answer: String,
}

/// A question with at least one turn before it.
struct FollowUp {
    turn: DialogueTurn,
    /// The path of the document that answers it.
    file_path: String,
    kind: FollowUpKind,
    conversation: Vec<Turn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowUpKind {
    /// Refers to the only question before it.
    SecondOfTwo,
    /// Refers to earlier questions of a longer conversation.
    OfLonger,
    /// Changes the subject.
    StandsAlone,
}

/// What was found for one question. The arrays have its forms: as asked, as rewritten, as people wrote it.
struct Verdict {
    kind: FollowUpKind,
    was_rewritten: bool,
    /// Whether a right passage was found.
    passages: [bool; 3],
    /// Whether the right document was found.
    documents: [bool; 3],
    rewriting: Duration,
    /// The time of the query, over HTTP.
    finding: [Duration; 3],
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let documents = collection::documents(&arguments.collection);
    let follow_ups = follow_ups(&arguments.collection, &documents);
    let server = EvaluatedServer::start(&documents, &WITHOUT_MODEL).await;
    // The first query loads what is loaded on first use.
    server.query("warm up", PASSAGES).await;
    let mut verdicts = Vec::with_capacity(follow_ups.len());
    for follow_up in &follow_ups {
        verdicts.push(judge(follow_up, &server).await);
    }
    let name = arguments.collection.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let report = DialogueReport { collection: name, verdicts };
    print!("{}", if arguments.json { report.json() } else { report.table() });
}

/// Reads the conversations; their first questions follow up on nothing.
fn follow_ups(folder: &Path, documents: &[CollectionDocument]) -> Vec<FollowUp> {
    let paths: HashMap<&str, &str> =
        documents.iter().map(|document| (document.id.as_str(), document.file_path.as_str())).collect();
    let mut follow_ups = Vec::new();
    for Dialogue { id, turns } in collection::json_lines(&folder.join("dialogues.jsonl")) {
        let (mut conversation, length) = (Vec::new(), turns.len());
        for turn in turns {
            let Some(file_path) = paths.get(turn.document.as_str()) else {
                panic!("dialogues.jsonl: {id:?}: there is no document {:?} in corpus.jsonl", turn.document);
            };
            let said = Turn { question: turn.question.clone(), answer: turn.answer.clone() };
            if !conversation.is_empty() {
                let kind = match (&turn.standalone, length) {
                    (None, _) => FollowUpKind::StandsAlone,
                    (Some(_), ..=2) => FollowUpKind::SecondOfTwo,
                    (Some(_), _) => FollowUpKind::OfLonger,
                };
                let (file_path, conversation) = ((*file_path).to_owned(), conversation.clone());
                follow_ups.push(FollowUp { turn, file_path, kind, conversation });
            }
            conversation.push(said);
        }
    }
    follow_ups
}

async fn judge(follow_up: &FollowUp, server: &EvaluatedServer) -> Verdict {
    let FollowUp { turn, file_path, kind, conversation } = follow_up;
    let began = Instant::now();
    let rewritten = engine::rewrite_by_rule(&turn.question, conversation);
    let rewriting = began.elapsed();
    let was_rewritten = rewritten.is_some();
    let rewritten = rewritten.as_deref().unwrap_or(&turn.question);
    let by_people = turn.standalone.as_deref().unwrap_or(&turn.question);
    let mut verdict = Verdict {
        kind: *kind,
        was_rewritten,
        passages: [false; 3],
        documents: [false; 3],
        rewriting,
        finding: [Duration::ZERO; 3],
    };
    for (form, query) in [&turn.question, rewritten, by_people].into_iter().enumerate() {
        let began = Instant::now();
        let found = server.query(query, PASSAGES).await;
        verdict.finding[form] = began.elapsed();
        let of_document = || found.iter().filter(|passage| passage.file_path == *file_path);
        verdict.documents[form] = of_document().next().is_some();
        verdict.passages[form] = of_document().any(|passage| has_fact(&passage.text, &turn.facts));
    }
    verdict
}
