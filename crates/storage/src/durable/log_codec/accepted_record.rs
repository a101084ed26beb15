//! The stored form of a prompt's acceptance, with its question. A new field needs a default; no field may change its
//! meaning.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Accepted, FilterField, Filters, Question, SearchScope, TraceId};
use serde::{Deserialize, Serialize};

use super::InvalidRecord;
use super::generation_records::ModelRecord;

#[derive(Serialize, Deserialize)]
pub(super) struct AcceptedRecord {
    prompt: String,
    session: String,
    answer: String,
    question: QuestionRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    follows: Option<String>,
    first_choice: ModelRecord,
    trace: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct QuestionRecord {
    text: String,
    top_k: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    filters: BTreeMap<String, BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threshold: Option<f32>,
    /// The selected text of a question about a selection, which has no filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selection: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
}

impl From<&Accepted> for AcceptedRecord {
    fn from(accepted: &Accepted) -> Self {
        Self {
            prompt: accepted.prompt.to_string(),
            session: accepted.session.to_string(),
            answer: accepted.answer.to_string(),
            question: (&accepted.question).into(),
            key: accepted.key.clone(),
            follows: accepted.follows.map(|prompt| prompt.to_string()),
            first_choice: (&accepted.first_choice).into(),
            trace: accepted.trace.to_string(),
        }
    }
}

impl TryFrom<AcceptedRecord> for Accepted {
    type Error = InvalidRecord;

    fn try_from(record: AcceptedRecord) -> Result<Self, InvalidRecord> {
        Ok(Self {
            prompt: record.prompt.parse().map_err(|_| InvalidRecord)?,
            session: record.session.parse().map_err(|_| InvalidRecord)?,
            answer: record.answer.parse().map_err(|_| InvalidRecord)?,
            question: record.question.try_into()?,
            key: record.key,
            follows: record.follows.map(|prompt| prompt.parse()).transpose().map_err(|_| InvalidRecord)?,
            first_choice: record.first_choice.into(),
            trace: record.trace.parse::<TraceId>().map_err(|_| InvalidRecord)?,
        })
    }
}

impl From<&Question> for QuestionRecord {
    fn from(question: &Question) -> Self {
        let name = |field: &FilterField| match field {
            FilterField::RepoUrl => "repoUrl".to_owned(),
            FilterField::FilePath => "filePath".to_owned(),
            FilterField::Language => "language".to_owned(),
            FilterField::Collection => "collection".to_owned(),
            FilterField::Title => "title".to_owned(),
            FilterField::SourceUrl => "sourceUrl".to_owned(),
            FilterField::SectionHeading => "sectionHeading".to_owned(),
            FilterField::Metadata(key) => format!("metadata.{key}"),
        };
        let mut record = Self {
            text: question.text.clone(),
            top_k: question.top_k,
            filters: BTreeMap::new(),
            threshold: question.threshold,
            selection: None,
            provider: question.provider.clone(),
        };
        match &question.scope {
            SearchScope::Knowledge(filters) => {
                record.filters =
                    filters.iter().map(|(field, values)| (name(field), values.clone())).collect();
            }
            SearchScope::Selection(text) => record.selection = Some(text.to_string()),
        }
        record
    }
}

impl TryFrom<QuestionRecord> for Question {
    type Error = InvalidRecord;

    fn try_from(record: QuestionRecord) -> Result<Self, InvalidRecord> {
        let mut filters = Filters::new();
        for (name, values) in record.filters {
            let field = match name.as_str() {
                "repoUrl" => FilterField::RepoUrl,
                "filePath" => FilterField::FilePath,
                "language" => FilterField::Language,
                "collection" => FilterField::Collection,
                "title" => FilterField::Title,
                "sourceUrl" => FilterField::SourceUrl,
                "sectionHeading" => FilterField::SectionHeading,
                other => {
                    FilterField::Metadata(other.strip_prefix("metadata.").ok_or(InvalidRecord)?.to_owned())
                }
            };
            filters.insert(field, values);
        }
        let scope = match record.selection {
            Some(text) => SearchScope::Selection(text.into()),
            None => SearchScope::Knowledge(filters),
        };
        let QuestionRecord { text, top_k, threshold, provider, .. } = record;
        Ok(Self { text, top_k, scope, threshold, provider })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acceptance_of_format_1_is_read_and_unknown_fields_are_ignored() {
        let stored = r#"{
            "prompt": "01900000-0000-7000-8000-000000000001",
            "session": "01900000-0000-7000-8000-000000000002",
            "answer": "01900000-0000-7000-8000-000000000003",
            "question": {"text": "why?", "top_k": 5, "filters": {"filePath": ["*.rs"], "metadata.x": ["1"]}, "mood": "curious"},
            "first_choice": {"provider": "local", "model": "llama"},
            "trace": "4bf92f3577b34da6a3ce929d0e0e4736",
            "added_later": true
        }"#;
        let record: AcceptedRecord = serde_json::from_str(stored).unwrap();
        let accepted = Accepted::try_from(record).ok().unwrap();
        assert_eq!(accepted.prompt.to_string(), "01900000-0000-7000-8000-000000000001");
        assert_eq!((accepted.key, accepted.follows), (None, None));
        let SearchScope::Knowledge(filters) = accepted.question.scope else { panic!() };
        let fields: Vec<_> = filters.keys().collect();
        assert_eq!(fields, [&FilterField::FilePath, &FilterField::Metadata("x".to_owned())]);
        assert_eq!(accepted.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    }

    #[test]
    fn invalid_ids_and_filters_are_refused() {
        let stored = |prompt: &str, filter: &str| {
            let id = "01900000-0000-7000-8000-000000000001";
            format!(
                r#"{{"prompt":"{prompt}","session":"{id}","answer":"{id}","trace":"1","first_choice":{{"provider":"","model":""}},
                    "question":{{"text":"","top_k":1,"filters":{{"{filter}":[]}}}}}}"#
            )
        };
        let is_valid = |text: String| {
            let record: AcceptedRecord = serde_json::from_str(&text).unwrap();
            Accepted::try_from(record).is_ok()
        };
        assert!(is_valid(stored("01900000-0000-7000-8000-000000000001", "title")));
        assert!(!is_valid(stored("not an id", "title")));
        assert!(!is_valid(stored("01900000-0000-7000-8000-000000000001", "colour")));
    }
}
