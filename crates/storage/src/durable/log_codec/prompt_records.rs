//! Stored forms of a prompt's acceptance, model, tool calls, usage and end. A new field needs a default; no field may
//! change its meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{
    Accepted, CancelReason, EndCause, Ended, Failure, FailureKind, FilterField, Filters, FinishReason,
    ModelId, Outcome, Question, SearchScope, ToolCall, TraceId, Usage,
};
use serde::{Deserialize, Serialize};

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

#[derive(Serialize, Deserialize)]
pub(super) struct ModelRecord {
    provider: String,
    model: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ToolCallRecord {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct UsageRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct EndedRecord {
    outcome: OutcomeRecord,
    cause: CauseRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeRecord {
    Done(FinishRecord),
    Cancelled,
    Failed { kind: KindRecord, message: String, retry_after_ms: Option<u64> },
}

/// Defines the stored form of a domain enum without data: its variants in snake case.
macro_rules! stored_as {
    ($record:ident is $kind:ty { $($name:ident = $value:pat => $domain:expr),+ $(,)? }) => {
        #[derive(Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum $record { $($name),+ }

        impl From<$kind> for $record {
            fn from(value: $kind) -> Self {
                match value { $($value => Self::$name),+ }
            }
        }

        impl From<$record> for $kind {
            fn from(record: $record) -> Self {
                match record { $($record::$name => $domain),+ }
            }
        }
    };
}

stored_as! { FinishRecord is FinishReason {
    Stop = FinishReason::Stop => FinishReason::Stop,
    Length = FinishReason::Length => FinishReason::Length,
    ToolCalls = FinishReason::ToolCalls => FinishReason::ToolCalls,
    Filtered = FinishReason::Filtered => FinishReason::Filtered,
} }

stored_as! { CauseRecord is EndCause {
    Model = EndCause::Model => EndCause::Model,
    Limit = EndCause::Limit => EndCause::Limit,
    Client = EndCause::Client(CancelReason::UserInitiated) => EndCause::Client(CancelReason::UserInitiated),
    ClientTimeout = EndCause::Client(CancelReason::Timeout) => EndCause::Client(CancelReason::Timeout),
    ClientError = EndCause::Client(CancelReason::Error) => EndCause::Client(CancelReason::Error),
    Abandoned = EndCause::Abandoned => EndCause::Abandoned,
    SessionEnded = EndCause::SessionEnded => EndCause::SessionEnded,
    Drain = EndCause::Drain => EndCause::Drain,
    Journal = EndCause::Journal => EndCause::Journal,
    Recovery = EndCause::Recovery => EndCause::Recovery,
    Bug = EndCause::Bug => EndCause::Bug,
} }

stored_as! { KindRecord is FailureKind {
    Unavailable = FailureKind::Unavailable => FailureKind::Unavailable,
    Refused = FailureKind::Refused => FailureKind::Refused,
    SilentAtStart = FailureKind::SilentAtStart => FailureKind::SilentAtStart,
    Stalled = FailureKind::Stalled => FailureKind::Stalled,
    Died = FailureKind::Died => FailureKind::Died,
    EmptyAnswer = FailureKind::EmptyAnswer => FailureKind::EmptyAnswer,
    TooLong = FailureKind::TooLong => FailureKind::TooLong,
    Retrieval = FailureKind::Retrieval => FailureKind::Retrieval,
    Embedding = FailureKind::Embedding => FailureKind::Embedding,
    Overloaded = FailureKind::Overloaded => FailureKind::Overloaded,
    Interrupted = FailureKind::Interrupted => FailureKind::Interrupted,
    Internal = FailureKind::Internal => FailureKind::Internal,
} }

/// A stored id or filter that is not valid.
pub(super) struct InvalidRecord;

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

impl From<&ModelId> for ModelRecord {
    fn from(model: &ModelId) -> Self {
        Self { provider: model.provider.to_string(), model: model.model.to_string() }
    }
}

impl From<ModelRecord> for ModelId {
    fn from(record: ModelRecord) -> Self {
        Self { provider: record.provider.into(), model: record.model.into() }
    }
}

impl From<&ToolCall> for ToolCallRecord {
    fn from(call: &ToolCall) -> Self {
        Self { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() }
    }
}

impl From<ToolCallRecord> for ToolCall {
    fn from(record: ToolCallRecord) -> Self {
        Self { id: record.id, name: record.name, arguments: record.arguments }
    }
}

impl From<Usage> for UsageRecord {
    fn from(usage: Usage) -> Self {
        Self { input: usage.input, output: usage.output, cached: usage.cached }
    }
}

impl From<UsageRecord> for Usage {
    fn from(record: UsageRecord) -> Self {
        Self { input: record.input, output: record.output, cached: record.cached }
    }
}

impl From<&Ended> for EndedRecord {
    fn from(ended: &Ended) -> Self {
        let outcome = match &ended.outcome {
            Outcome::Done(reason) => OutcomeRecord::Done((*reason).into()),
            Outcome::Cancelled => OutcomeRecord::Cancelled,
            Outcome::Failed(failure) => OutcomeRecord::Failed {
                kind: failure.kind.into(),
                message: failure.message.clone(),
                retry_after_ms: failure
                    .retry_after
                    .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            },
        };
        Self { outcome, cause: ended.cause.into() }
    }
}

impl From<EndedRecord> for Ended {
    fn from(record: EndedRecord) -> Self {
        let outcome = match record.outcome {
            OutcomeRecord::Done(reason) => Outcome::Done(reason.into()),
            OutcomeRecord::Cancelled => Outcome::Cancelled,
            OutcomeRecord::Failed { kind, message, retry_after_ms } => Outcome::Failed(Failure {
                kind: kind.into(),
                message,
                retry_after: retry_after_ms.map(Duration::from_millis),
            }),
        };
        Self { outcome, cause: record.cause.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ended: &Ended, stored: &str) {
        assert_eq!(serde_json::to_string(&EndedRecord::from(ended)).unwrap(), stored);
        let record: EndedRecord = serde_json::from_str(stored).unwrap();
        assert_eq!(Ended::from(record), *ended);
    }

    #[test]
    fn outcomes_and_causes_are_stored_under_these_names() {
        let done = |reason, cause| Ended { outcome: Outcome::Done(reason), cause };
        check(&done(FinishReason::Stop, EndCause::Model), r#"{"outcome":{"done":"stop"},"cause":"model"}"#);
        check(
            &done(FinishReason::Length, EndCause::Limit),
            r#"{"outcome":{"done":"length"},"cause":"limit"}"#,
        );
        let cancelled =
            Ended { outcome: Outcome::Cancelled, cause: EndCause::Client(CancelReason::UserInitiated) };
        check(&cancelled, r#"{"outcome":"cancelled","cause":"client"}"#);
        let failure = Failure {
            retry_after: Some(Duration::from_millis(1_500)),
            ..Failure::new(FailureKind::SilentAtStart, "no answer")
        };
        check(
            &Ended { outcome: Outcome::Failed(failure), cause: EndCause::Recovery },
            r#"{"outcome":{"failed":{"kind":"silent_at_start","message":"no answer","retry_after_ms":1500}},"cause":"recovery"}"#,
        );
    }

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
