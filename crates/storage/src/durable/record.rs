//! Stored forms of the events that are not tokens. Fields may be added with a default; none may change its
//! meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{
    Accepted, CancelReason, Cause, Ended, Failure, FailureKind, FilterField, Filters, FinishReason, Model,
    Outcome, Question, ToolCall, TraceId, Usage,
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

/// Names the variants of a domain enum as they are stored.
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

stored_as! { CauseRecord is Cause {
    Model = Cause::Model => Cause::Model,
    Limit = Cause::Limit => Cause::Limit,
    Client = Cause::Client(CancelReason::UserInitiated) => Cause::Client(CancelReason::UserInitiated),
    ClientTimeout = Cause::Client(CancelReason::Timeout) => Cause::Client(CancelReason::Timeout),
    ClientError = Cause::Client(CancelReason::Error) => Cause::Client(CancelReason::Error),
    Abandoned = Cause::Abandoned => Cause::Abandoned,
    SessionEnded = Cause::SessionEnded => Cause::SessionEnded,
    Drain = Cause::Drain => Cause::Drain,
    Journal = Cause::Journal => Cause::Journal,
    Recovery = Cause::Recovery => Cause::Recovery,
    Bug = Cause::Bug => Cause::Bug,
} }

stored_as! { KindRecord is FailureKind {
    Unavailable = FailureKind::Unavailable => FailureKind::Unavailable,
    Refused = FailureKind::Refused => FailureKind::Refused,
    SilentAtStart = FailureKind::SilentAtStart => FailureKind::SilentAtStart,
    Stalled = FailureKind::Stalled => FailureKind::Stalled,
    Died = FailureKind::Died => FailureKind::Died,
    EmptyAnswer = FailureKind::EmptyAnswer => FailureKind::EmptyAnswer,
    TooLong = FailureKind::TooLong => FailureKind::TooLong,
    Interrupted = FailureKind::Interrupted => FailureKind::Interrupted,
    Internal = FailureKind::Internal => FailureKind::Internal,
} }

/// A stored id or filter that cannot be one.
pub(super) struct Unreadable;

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
    type Error = Unreadable;

    fn try_from(record: AcceptedRecord) -> Result<Self, Unreadable> {
        Ok(Self {
            prompt: record.prompt.parse().map_err(|_| Unreadable)?,
            session: record.session.parse().map_err(|_| Unreadable)?,
            answer: record.answer.parse().map_err(|_| Unreadable)?,
            question: record.question.try_into()?,
            key: record.key,
            follows: record.follows.map(|prompt| prompt.parse()).transpose().map_err(|_| Unreadable)?,
            first_choice: record.first_choice.into(),
            trace: record.trace.parse::<TraceId>().map_err(|_| Unreadable)?,
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
            FilterField::Metadata(key) => format!("metadata.{key}"),
        };
        Self {
            text: question.text.clone(),
            top_k: question.top_k,
            filters: question.filters.iter().map(|(field, values)| (name(field), values.clone())).collect(),
            provider: question.provider.clone(),
        }
    }
}

impl TryFrom<QuestionRecord> for Question {
    type Error = Unreadable;

    fn try_from(record: QuestionRecord) -> Result<Self, Unreadable> {
        let mut filters = Filters::new();
        for (name, values) in record.filters {
            let field = match name.as_str() {
                "repoUrl" => FilterField::RepoUrl,
                "filePath" => FilterField::FilePath,
                "language" => FilterField::Language,
                "collection" => FilterField::Collection,
                "title" => FilterField::Title,
                other => FilterField::Metadata(other.strip_prefix("metadata.").ok_or(Unreadable)?.to_owned()),
            };
            filters.insert(field, values);
        }
        Ok(Self { text: record.text, top_k: record.top_k, filters, provider: record.provider })
    }
}

impl From<&Model> for ModelRecord {
    fn from(model: &Model) -> Self {
        Self { provider: model.provider.to_string(), model: model.model.to_string() }
    }
}

impl From<ModelRecord> for Model {
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
