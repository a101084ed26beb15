//! Answers that an earlier evaluation has recorded. A change shows best question by question, because questions differ far
//! more than ways of answering them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The F1 of earlier answers, by their questions' ids.
#[derive(Default)]
pub(crate) struct EarlierAnswers(HashMap<String, f64>);

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "_id")]
    id: String,
    f1: Option<f64>,
}

impl EarlierAnswers {
    /// Reads a file that `--record` has written.
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parse = |(number, line): (usize, &str)| {
            serde_json::from_str(line).unwrap_or_else(|error| {
                panic!("{}:{number}: not an answer that --record has written: {error}", path.display())
            })
        };
        let lines = (1..).zip(text.lines()).map(parse);
        Self(lines.filter_map(|Line { id, f1 }| Some((id, f1?))).collect())
    }

    /// How much better the answer to a question is than the earlier one.
    pub(crate) fn better(&self, question: &str, f1: Option<f64>) -> Option<f64> {
        Some(f1? - self.0.get(question)?)
    }
}
