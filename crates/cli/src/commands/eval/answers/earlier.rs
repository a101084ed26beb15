//! Answers that an earlier evaluation has recorded: what a change of settings or models is worth shows best question by
//! question, because questions differ far more than ways of answering them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The F1 of earlier answers, by their questions' ids.
#[derive(Default)]
pub(super) struct Earlier(HashMap<String, f64>);

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "_id")]
    id: String,
    f1: Option<f64>,
}

impl Earlier {
    /// Reads what `--record` has written.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut earlier = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line: Line = serde_json::from_str(line).map_err(|error| {
                format!("{}:{number}: not an answer that --record has written: {error}", path.display())
            })?;
            earlier.extend(line.f1.map(|f1| (line.id, f1)));
        }
        Ok(Self(earlier))
    }

    /// How much better an answer to a question is than the earlier one, if there is one.
    pub(super) fn better(&self, question: &str, f1: Option<f64>) -> Option<f64> {
        Some(f1? - self.0.get(question)?)
    }
}
