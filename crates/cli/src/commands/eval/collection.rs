//! A collection as BEIR has them: documents, questions, and which documents answer which question; and, beyond BEIR,
//! what a good answer says. What is wrong with a file is told with its line.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use domain::{DocumentId, DocumentLocation};
use retrieval::ranking_metrics::Judgements;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Documents, and questions with their judgements.
#[derive(Debug)]
pub(super) struct Collection {
    /// The folder's name.
    pub(super) name: String,
    pub(super) documents: Vec<Entry>,
    /// In the order of their file.
    pub(super) questions: Vec<Question>,
}

/// A document of a collection.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: DocumentLocation,
    /// As the collection has it, and be it nothing; none where it is the document itself that has one.
    pub(super) title: Option<String>,
    pub(super) text: String,
}

/// A question, and which documents answer it.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) judgements: Judgements<DocumentId>,
}

/// What a good answer to a question says: a line of `answers.jsonl`.
#[derive(Debug, Deserialize)]
pub(super) struct Reference {
    #[serde(rename = "_id")]
    id: String,
    /// Whether the documents have an answer.
    #[serde(default = "yes")]
    pub(super) answerable: bool,
    /// Answers as people gave them.
    #[serde(default)]
    pub(super) answers: Vec<String>,
    /// Words of which a right answer has at least one.
    #[serde(default)]
    pub(super) facts: Vec<String>,
}

fn yes() -> bool {
    true
}

/// A line of `corpus.jsonl`. It has its text, or names a file that does, from the collection's folder.
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
    /// Reads the collection in a folder, with the questions of one of its splits.
    pub(super) fn read(folder: &Path, dev: bool) -> Result<Self, String> {
        let prefix = if dev { "dev_" } else { "" };
        let (documents, ids) = Self::documents(folder)?;
        let queries = json_lines::<QueryLine>(&folder.join(format!("{prefix}queries.jsonl")))?;
        let qrels = folder.join(format!("{prefix}qrels.tsv"));

        let known: HashSet<&str> = queries.iter().map(|query| query.id.as_str()).collect();
        let mut judgements = judgements(&qrels, &ids, &known)?;
        if judgements.is_empty() {
            return Err(format!("{}: no question has a judgement", qrels.display()));
        }
        let question = |QueryLine { id, text }| {
            let judgements = judgements.remove(&id).unwrap_or_default();
            Question { id, text, judgements }
        };
        let questions = queries.into_iter().map(question).collect();
        Ok(Self { name: name_of(folder), documents, questions })
    }

    /// Reads the documents of the collection in a folder, and which `_id` is which.
    pub(super) fn documents(folder: &Path) -> Result<(Vec<Entry>, HashMap<String, DocumentId>), String> {
        let mut ids = HashMap::new();
        let mut documents = Vec::new();
        for line in json_lines::<CorpusLine>(&folder.join("corpus.jsonl"))? {
            let id = line.id.clone();
            let entry = entry(folder, line)?;
            if ids.insert(id.clone(), entry.place.document()).is_some() {
                return Err(format!("corpus.jsonl: two documents have the _id {id:?}"));
            }
            documents.push(entry);
        }
        Ok((documents, ids))
    }

    /// The questions that have a judgement.
    pub(super) fn judged(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| !question.judgements.is_empty())
    }

    /// Reads what good answers say, by the question's id.
    pub(super) fn references(folder: &Path) -> Result<HashMap<String, Reference>, String> {
        let lines = json_lines::<Reference>(&folder.join("answers.jsonl"))?;
        Ok(lines.into_iter().map(|reference| (reference.id.clone(), reference)).collect())
    }
}

/// What the collection in a folder goes by.
pub(super) fn name_of(folder: &Path) -> String {
    let name = folder.canonicalize().ok();
    let name = name.as_deref().unwrap_or(folder).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The document of a line.
fn entry(folder: &Path, line: CorpusLine) -> Result<Entry, String> {
    let CorpusLine { id, title, text, file } = line;
    match (text, file) {
        (Some(text), None) => Ok(Entry { place: place(&id, &text), title: Some(title), text }),
        (None, Some(file)) => {
            let path = folder.join(&file);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(Entry { place: filed(id), title: None, text })
        }
        _ => Err(format!("corpus.jsonl: document {id:?} needs either a text or a file")),
    }
}

/// The judgements of `qrels.tsv`, by the question's id.
fn judgements(
    path: &Path,
    documents: &HashMap<String, DocumentId>,
    questions: &HashSet<&str>,
) -> Result<HashMap<String, Judgements<DocumentId>>, String> {
    let mut judgements: HashMap<String, Judgements<DocumentId>> = HashMap::new();
    // The first line has the names of the columns.
    for (number, line) in lines(path)?.skip(1) {
        let line = line.map_err(|error| wrong(path, number, error))?;
        let fields: Vec<&str> = line.split('\t').collect();
        let [question, document, grade] = fields[..] else {
            return Err(wrong(
                path,
                number,
                "expected a query-id, a corpus-id and a score, separated by tabs",
            ));
        };
        let grade = grade.trim().parse().map_err(|_| {
            wrong(path, number, format!("the score {grade:?} is not a whole number from 0 upwards"))
        })?;
        let unknown = |what, id, file| wrong(path, number, format!("there is no {what} {id:?} in {file}"));
        let document =
            documents.get(document).ok_or_else(|| unknown("document", document, "corpus.jsonl"))?;
        if !questions.contains(question) {
            return Err(unknown("question", question, "the file of queries"));
        }
        judgements.entry(question.to_owned()).or_default().insert(*document, grade);
    }
    Ok(judgements)
}

pub(super) fn json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, String> {
    let read = |(number, line): (usize, io::Result<String>)| {
        let line = line.map_err(|error| wrong(path, number, error))?;
        serde_json::from_str(&line).map_err(|error| wrong(path, number, error))
    };
    lines(path)?.map(read).collect()
}

/// The lines of a file that are not empty, counted from 1.
fn lines(path: &Path) -> Result<impl Iterator<Item = (usize, io::Result<String>)>, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let is_empty = |line: &io::Result<String>| line.as_ref().is_ok_and(|line| line.trim().is_empty());
    Ok((1..).zip(BufReader::new(file).lines()).filter(move |(_, line)| !is_empty(line)))
}

fn wrong(path: &Path, line: usize, what: impl std::fmt::Display) -> String {
    format!("{}, line {line}: {what}", path.display())
}

/// Where a document is filed. Collections name no files, so it is told by a text's beginning whether it is code.
fn place(id: &str, text: &str) -> DocumentLocation {
    let extension = language(text).unwrap_or("txt");
    filed(format!("{id}.{extension}"))
}

fn filed(file_path: String) -> DocumentLocation {
    DocumentLocation { collection: "eval".to_owned(), repo_url: "eval".to_owned(), file_path }
}

/// The extension of files that begin as this one does: with a definition.
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
        let answers = "{\"_id\":\"q\",\"answerable\":true,\"answers\":[\"so\"],\"facts\":[]}\n";
        let files = [
            ("corpus.jsonl", corpus),
            ("queries.jsonl", queries),
            ("qrels.tsv", "q\td\ts\nq\td\t1\n"),
            ("answers.jsonl", answers),
        ];
        for (changed, seed) in files {
            fuzz_text(&[seed], &["\t", "\n", "\"_id\"", "\"q\"", "-1", "18446744073709551616"], |text| {
                for (name, right) in files {
                    fs::write(folder.path().join(name), if name == changed { text } else { right }).unwrap();
                }
                let read = Collection::read(folder.path(), false);
                assert!(read.is_err() || read.is_ok_and(|read| read.judged().count() > 0));
                let _ = Collection::references(folder.path());
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
