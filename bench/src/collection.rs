//! Collections to evaluate on: documents in BEIR form, and the questions, reference answers or dialogues about them.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A document of `corpus.jsonl`.
pub struct CollectionDocument {
    /// Its `_id`.
    pub id: String,
    /// The path it is filed under.
    pub file_path: String,
    /// `None` if the title is in the text.
    pub title: Option<String>,
    /// The whole text.
    pub text: String,
}

/// A line of `queries.jsonl`, with its judgements.
pub struct Question {
    /// Its `_id`.
    pub id: String,
    /// The text.
    pub text: String,
    /// The file paths of the documents that answer it.
    pub answered_by: BTreeSet<String>,
}

/// What a good answer to a question says: a line of `answers.jsonl`.
#[derive(Debug, Deserialize)]
pub struct ReferenceAnswer {
    #[serde(rename = "_id")]
    id: String,
    /// Whether the documents answer the question.
    #[serde(default = "yes")]
    pub answerable: bool,
    /// Answers that people gave.
    #[serde(default)]
    pub answers: Vec<String>,
    /// Phrases of which a right answer has at least one.
    #[serde(default)]
    pub facts: Vec<String>,
}

fn yes() -> bool {
    true
}

/// Reads `corpus.jsonl`, whose lines have a text or the path of a file.
///
/// # Panics
/// If a file is missing or malformed; the message names it.
pub fn documents(folder: &Path) -> Vec<CollectionDocument> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "_id")]
        id: String,
        #[serde(default)]
        title: String,
        text: Option<String>,
        file: Option<String>,
    }
    let document = |Line { id, title, text, file }: Line| match (text, file) {
        (Some(text), None) => {
            CollectionDocument { file_path: format!("{id}.txt"), id, title: Some(title), text }
        }
        (None, Some(file)) => {
            let text = read(&folder.join(file));
            CollectionDocument { file_path: id.clone(), id, title: None, text }
        }
        _ => panic!("corpus.jsonl: document {id:?} needs either a text or a file"),
    };
    json_lines(&folder.join("corpus.jsonl")).into_iter().map(document).collect()
}

/// Reads `queries.jsonl` and `qrels.tsv`.
///
/// # Panics
/// If a file is missing or malformed, or names a document that is not there.
pub fn questions(folder: &Path, documents: &[CollectionDocument]) -> Vec<Question> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "_id")]
        id: String,
        text: String,
    }
    let paths: HashMap<&str, &str> =
        documents.iter().map(|document| (document.id.as_str(), document.file_path.as_str())).collect();
    let mut answered_by: HashMap<String, BTreeSet<String>> = HashMap::new();
    let qrels = read(&folder.join("qrels.tsv"));
    for line in qrels.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [question, document, grade] = fields[..] else { panic!("qrels.tsv: not three fields: {line:?}") };
        let path = paths.get(document).unwrap_or_else(|| panic!("qrels.tsv: no document {document:?}"));
        if grade.trim() != "0" {
            answered_by.entry(question.to_owned()).or_default().insert((*path).to_owned());
        }
    }
    let question = |Line { id, text }: Line| {
        let answered_by = answered_by.remove(&id).unwrap_or_default();
        Question { id, text, answered_by }
    };
    json_lines(&folder.join("queries.jsonl")).into_iter().map(question).collect()
}

/// Reads `answers.jsonl`, by the question's id.
///
/// # Panics
/// If the file is missing or malformed.
pub fn reference_answers(folder: &Path) -> HashMap<String, ReferenceAnswer> {
    let lines: Vec<ReferenceAnswer> = json_lines(&folder.join("answers.jsonl"));
    lines.into_iter().map(|reference| (reference.id.clone(), reference)).collect()
}

/// Reads a file of one JSON a line.
///
/// # Panics
/// If the file is missing or malformed; the message has the line.
pub fn json_lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = read(path);
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{}:{number}: {error}", path.display()))
    };
    lines.map(parse).collect()
}

/// Whether a text has one of the facts as whole words, whatever its case, markup and spaces: 30 is not in 300.
pub fn has_fact(text: &str, facts: &[String]) -> bool {
    let text = plain(text);
    facts.iter().map(|fact| plain(fact)).any(|fact| !fact.is_empty() && has_words(&text, &fact))
}

fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(start, _)| {
        let (before, behind) = (&text[..start], &text[start + words.len()..]);
        !before.ends_with(char::is_alphanumeric) && !behind.starts_with(char::is_alphanumeric)
    })
}

fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace(['`', '*', '"'], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_found_whatever_its_markup_and_as_whole_words() {
        let facts = ["3600 seconds".to_owned(), "an hour".to_owned()];
        assert!(has_fact("After `3600`\nseconds.", &facts));
        assert!(has_fact("After **an hour**", &facts));
        assert!(!has_fact("After a day.", &facts));
        assert!(!has_fact("After 13600 seconds, or an hourglass.", &facts));
    }
}
