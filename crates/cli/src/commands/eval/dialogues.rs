//! How good what is found for questions of a conversation is: as they are asked, as the engine rewrites those that go on
//! from earlier ones, and as people wrote them down to stand alone. A passage is right if it is of the right document
//! and has the fact that answers the question.

mod report;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use domain::{DocumentId, Principal, RetrievalQuery, Retriever, SearchScope, Turn};
use serde::Deserialize;

use super::collection::json_lines;
pub(super) use report::Report;

/// As many passages as a client gets that does not say how many.
const PASSAGES: usize = 5;

/// A conversation: a line of `dialogues.jsonl`.
#[derive(Debug, Deserialize)]
pub(super) struct Dialogue {
    #[serde(rename = "_id")]
    id: String,
    turns: Vec<Said>,
}

/// A question of a conversation, and what is known about it.
#[derive(Debug, Deserialize)]
struct Said {
    question: String,
    /// The question as it would stand alone; none if it does.
    standalone: Option<String>,
    /// The `_id` of the document that answers it.
    document: String,
    /// What answers it, in the words of the document.
    facts: Vec<String>,
    /// What was answered, which the next question may go on from.
    #[serde(default)]
    answer: String,
}

/// Reads the conversations in a folder, which are about these documents.
pub(super) fn read(folder: &Path, ids: &HashMap<String, DocumentId>) -> Result<Vec<Asked>, String> {
    let path = folder.join("dialogues.jsonl");
    let mut asked = Vec::new();
    for dialogue in json_lines::<Dialogue>(&path)? {
        let mut conversation = Vec::new();
        let length = dialogue.turns.len();
        for said in dialogue.turns {
            let document = ids.get(&said.document).copied().ok_or_else(|| {
                let (id, document) = (&dialogue.id, &said.document);
                format!("{}: {id:?}: there is no document {document:?} in corpus.jsonl", path.display())
            })?;
            let turn = Turn { question: said.question.clone(), answer: said.answer.clone() };
            if !conversation.is_empty() {
                let kind = match (&said.standalone, length) {
                    (None, _) => Kind::StandsAlone,
                    (Some(_), ..=2) => Kind::SecondOfTwo,
                    (Some(_), _) => Kind::OfLonger,
                };
                asked.push(Asked { said, document, kind, conversation: conversation.clone() });
            }
            conversation.push(turn);
        }
    }
    Ok(asked)
}

/// A question that something was said before.
pub(super) struct Asked {
    said: Said,
    document: DocumentId,
    kind: Kind,
    conversation: Vec<Turn>,
}

/// What is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Goes on from the only one before it.
    SecondOfTwo,
    /// Goes on, in a longer conversation.
    OfLonger,
    /// Changes the subject.
    StandsAlone,
}

/// What became of one question.
struct Verdict {
    kind: Kind,
    was_rewritten: bool,
    /// As asked, as rewritten, as people wrote it: whether a right passage was found.
    passages: [bool; 3],
    /// And whether the right document was.
    documents: [bool; 3],
    rewriting: Duration,
    /// How long the first two took to be looked for.
    finding: [Duration; 2],
}

/// Looks for every question in its three forms.
pub(super) async fn measure(
    collection: String,
    asked: &[Asked],
    retriever: &dyn Retriever,
) -> Result<Report, String> {
    // Whatever is loaded on first use is loaded now.
    find(retriever, "warm up").await?;
    let mut verdicts = Vec::with_capacity(asked.len());
    for asked in asked {
        verdicts.push(judge(asked, retriever).await?);
    }
    Ok(Report { collection, verdicts })
}

async fn judge(asked: &Asked, retriever: &dyn Retriever) -> Result<Verdict, String> {
    let Asked { said, document, kind, conversation } = asked;
    let began = Instant::now();
    let rewritten = engine::rewrite_by_rule(&said.question, conversation);
    let rewriting = began.elapsed();
    let was_rewritten = rewritten.is_some();
    let rewritten = rewritten.as_deref().unwrap_or(&said.question);
    let by_people = said.standalone.as_deref().unwrap_or(&said.question);
    let (mut passages, mut documents, mut finding) = ([false; 3], [false; 3], [Duration::ZERO; 2]);
    for (form, query) in [&said.question, rewritten, by_people].into_iter().enumerate() {
        let began = Instant::now();
        let found = find(retriever, query).await?;
        if let Some(finding) = finding.get_mut(form) {
            *finding = began.elapsed();
        }
        let of_document = || found.iter().filter(|(id, _)| id == document);
        documents[form] = of_document().next().is_some();
        passages[form] = of_document().any(|(_, text)| has_fact(text, &said.facts));
    }
    Ok(Verdict { kind: *kind, was_rewritten, passages, documents, rewriting, finding })
}

async fn find(retriever: &dyn Retriever, query: &str) -> Result<Vec<(DocumentId, String)>, String> {
    let wanted = RetrievalQuery {
        text: query.to_owned(),
        scope: SearchScope::default(),
        threshold: None,
        limit: PASSAGES,
    };
    let found = retriever.retrieve(&Principal::local(), wanted, &|_| {}).await;
    let found = found.map_err(|failure| format!("{query:?}: {}", failure.message))?;
    Ok(found.passages.into_iter().map(|hit| (hit.passage.document, hit.passage.text)).collect())
}

/// Whether a text has one of the facts, whatever its case, marks and spaces.
fn has_fact(text: &str, facts: &[String]) -> bool {
    let text = plain(text);
    facts.iter().any(|fact| text.contains(&plain(fact)))
}

fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace(['`', '*', '"'], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
