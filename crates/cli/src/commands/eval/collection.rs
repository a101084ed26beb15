//! A collection in BEIR form: documents, questions, and which documents answer which question. An error names the file and
//! the line.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use domain::{DocumentId, DocumentLocation};
use retrieval::ranking_metrics::Judgements;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Why a collection cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectionError {
    #[error("{path}: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path}, line {line}: {message}", path = path.display())]
    Line { path: PathBuf, line: usize, message: String },
    #[error("{path}: {message}", path = path.display())]
    Inconsistent { path: PathBuf, message: String },
}

/// Documents, and questions with their judgements.
#[derive(Debug)]
pub(super) struct Collection {
    /// The folder's name.
    pub(super) name: String,
    pub(super) documents: Vec<CollectionDocument>,
    /// In the order of their file.
    pub(super) questions: Vec<Question>,
}

#[derive(Debug)]
pub(super) struct CollectionDocument {
    pub(super) location: DocumentLocation,
    /// The title in `corpus.jsonl`, which may be empty; `None` for a file, whose title is in its text.
    pub(super) title: Option<String>,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct Question {
    pub(super) text: String,
    /// The grades of the documents that answer it.
    pub(super) judgements: Judgements<DocumentId>,
}

/// Which questions of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Split {
    /// The questions that are reported
    #[default]
    Test,
    /// The questions for choosing settings
    Dev,
}

/// A line of `corpus.jsonl`: with a text, or with the path of a file, relative to the collection's folder.
#[derive(Deserialize)]
struct CorpusLine {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: Option<String>,
    file: Option<PathBuf>,
}

/// A line of `queries.jsonl`.
#[derive(Deserialize)]
struct QueryLine {
    #[serde(rename = "_id")]
    id: String,
    text: String,
}

impl Collection {
    /// Reads the collection in a folder, with the questions of one split.
    pub(super) fn read(folder: &Path, split: Split) -> Result<Self, CollectionError> {
        let prefix = match split {
            Split::Test => "",
            Split::Dev => "dev_",
        };
        let (documents, ids) = read_documents(folder)?;
        let queries = json_lines::<QueryLine>(&folder.join(format!("{prefix}queries.jsonl")))?;
        let qrels = folder.join(format!("{prefix}qrels.tsv"));

        let known: HashSet<&str> = queries.iter().map(|query| query.id.as_str()).collect();
        let mut judgements = read_judgements(&qrels, &ids, &known)?;
        if judgements.is_empty() {
            return Err(inconsistent(&qrels, "no question has a judgement"));
        }
        let question = |QueryLine { id, text }| {
            let judgements = judgements.remove(&id).unwrap_or_default();
            Question { text, judgements }
        };
        let questions = queries.into_iter().map(question).collect();
        let name = folder.canonicalize().ok();
        let name = name.as_deref().unwrap_or(folder).file_name().unwrap_or_default();
        Ok(Self { name: name.to_string_lossy().into_owned(), documents, questions })
    }

    /// The questions that have a judgement.
    pub(super) fn judged(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| !question.judgements.is_empty())
    }
}

type DocumentIds = HashMap<String, DocumentId>;

/// Reads the documents, and the id of each `_id`.
fn read_documents(folder: &Path) -> Result<(Vec<CollectionDocument>, DocumentIds), CollectionError> {
    let corpus = folder.join("corpus.jsonl");
    let mut ids = HashMap::new();
    let mut documents = Vec::new();
    for line in json_lines::<CorpusLine>(&corpus)? {
        let CorpusLine { id, title, text, file } = line;
        let document = match (text, file) {
            (Some(text), None) => {
                CollectionDocument { location: text_location(&id, &text), title: Some(title), text }
            }
            (None, Some(file)) => {
                let path = folder.join(&file);
                let text = fs::read_to_string(&path)
                    .map_err(|source| CollectionError::Unreadable { path, source })?;
                CollectionDocument { location: location(id.clone()), title: None, text }
            }
            _ => {
                return Err(inconsistent(&corpus, format!("document {id:?} needs either a text or a file")));
            }
        };
        if ids.insert(id.clone(), document.location.document()).is_some() {
            return Err(inconsistent(&corpus, format!("two documents have the _id {id:?}")));
        }
        documents.push(document);
    }
    Ok((documents, ids))
}

/// The judgements of `qrels.tsv`, by the question's id.
fn read_judgements(
    path: &Path,
    documents: &DocumentIds,
    questions: &HashSet<&str>,
) -> Result<HashMap<String, Judgements<DocumentId>>, CollectionError> {
    let mut judgements: HashMap<String, Judgements<DocumentId>> = HashMap::new();
    // The first line is a header.
    for (number, line) in lines(path)?.skip(1) {
        let line = line.map_err(|error| wrong_line(path, number, error))?;
        let fields: Vec<&str> = line.split('\t').collect();
        let [question, document, grade] = fields[..] else {
            let message = "expected a query-id, a corpus-id and a score, separated by tabs";
            return Err(wrong_line(path, number, message));
        };
        let grade = grade.trim().parse().map_err(|_| {
            wrong_line(path, number, format!("the score {grade:?} is not a whole number from 0 upwards"))
        })?;
        let unknown =
            |what, id, file| wrong_line(path, number, format!("there is no {what} {id:?} in {file}"));
        let document =
            documents.get(document).ok_or_else(|| unknown("document", document, "corpus.jsonl"))?;
        if !questions.contains(question) {
            return Err(unknown("question", question, "the file of queries"));
        }
        judgements.entry(question.to_owned()).or_default().insert(*document, grade);
    }
    Ok(judgements)
}

fn json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, CollectionError> {
    let read = |(number, line): (usize, io::Result<String>)| {
        let line = line.map_err(|error| wrong_line(path, number, error))?;
        serde_json::from_str(&line).map_err(|error| wrong_line(path, number, error))
    };
    lines(path)?.map(read).collect()
}

/// The lines of a file that are not empty, counted from 1.
fn lines(path: &Path) -> Result<impl Iterator<Item = (usize, io::Result<String>)>, CollectionError> {
    let unreadable = |source| CollectionError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let is_empty = |line: &io::Result<String>| line.as_ref().is_ok_and(|line| line.trim().is_empty());
    Ok((1..).zip(BufReader::new(file).lines()).filter(move |(_, line)| !is_empty(line)))
}

fn wrong_line(path: &Path, line: usize, message: impl Display) -> CollectionError {
    CollectionError::Line { path: path.to_owned(), line, message: message.to_string() }
}

fn inconsistent(path: &Path, message: impl Into<String>) -> CollectionError {
    CollectionError::Inconsistent { path: path.to_owned(), message: message.into() }
}

/// The location of a document without a file. Whether it is code is guessed from its first line.
fn text_location(id: &str, text: &str) -> DocumentLocation {
    let extension = language(text).unwrap_or("txt");
    location(format!("{id}.{extension}"))
}

fn location(file_path: String) -> DocumentLocation {
    DocumentLocation { collection: "eval".to_owned(), repo_url: "eval".to_owned(), file_path }
}

/// The file extension of a text that begins with a definition.
fn language(text: &str) -> Option<&'static str> {
    const BEGINNINGS: [(&str, &str); 8] = [
        ("def ", "py"),
        ("async def ", "py"),
        ("class ", "py"),
        ("func ", "go"),
        ("function ", "js"),
        ("fn ", "rs"),
        ("pub fn ", "rs"),
        ("public ", "java"),
    ];
    let first = text.trim_start().lines().next()?;
    let (_, extension) = BEGINNINGS.iter().find(|(beginning, _)| first.starts_with(beginning))?;
    first.contains(['(', ':', '{']).then_some(*extension)
}

#[cfg(test)]
mod tests {
    use testing::fuzz_text;

    use super::*;

    #[test]
    fn fuzz_nearly_right_collections() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = "{\"_id\":\"d\",\"title\":\"T\",\"text\":\"def f(): x\"}\n\n{\"_id\":\"e\",\"file\":\"corpus.jsonl\"}\n";
        let queries = "{\"_id\":\"q\",\"text\":\"why?\"}\n";
        let files =
            [("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels.tsv", "q\td\ts\nq\td\t1\n")];
        for (changed, seed) in files {
            fuzz_text(&[seed], &["\t", "\n", "\"_id\"", "\"q\"", "-1", "18446744073709551616"], |text| {
                for (name, right) in files {
                    fs::write(folder.path().join(name), if name == changed { text } else { right }).unwrap();
                }
                let read = Collection::read(folder.path(), Split::Test);
                assert!(read.is_err() || read.is_ok_and(|read| read.judged().count() > 0));
            });
        }
    }

    #[test]
    fn a_text_that_begins_with_a_definition_is_code() {
        for (text, expected) in [
            ("def parse(url):\n    return url", Some("py")),
            ("\n  async def get(\n    url,\n): ...", Some("py")),
            ("func Parse(url string) error {", Some("go")),
            ("class struggle is a term of Marx.", None),
            ("The def keyword (Python) begins a function.", None),
            ("", None),
        ] {
            assert_eq!(language(text), expected, "{text}");
        }
    }
}
