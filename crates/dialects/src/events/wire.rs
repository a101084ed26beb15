//! The wire structs of an event.

use schemars::JsonSchema;
use serde::Serialize;

use crate::generation::SourceWire;
use crate::generation::errors::failure_codes;

/// A step of a prompt, as in its log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Event")]
pub struct EventWire<'a> {
    /// Position in the log, from 0 without gaps.
    pub(super) position: u64,
    /// When the event happened.
    #[schemars(extend("format" = "date-time"))]
    pub(super) at: String,
    #[serde(flatten)]
    pub(super) step: StepWire<'a>,
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum StepWire<'a> {
    Accepted {
        #[schemars(extend("format" = "uuid"))]
        prompt_id: String,
        #[schemars(extend("format" = "uuid"))]
        session_id: String,
        #[schemars(extend("format" = "uuid"))]
        answer_id: String,
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("format" = "uuid"))]
        follows: Option<String>,
        trace_id: String,
    },
    Stage {
        name: StageNameWire,
        status: StageStatusWire,
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<u64>")]
        micros: Option<u128>,
    },
    Rewritten {
        query: &'a str,
    },
    Passages {
        found: u32,
        passages: Vec<SourceWire<'a>>,
    },
    Citations {
        citations: Vec<CitationWire<'a>>,
    },
    Started {
        provider: &'a str,
        model: &'a str,
    },
    Text {
        text: &'a str,
    },
    Reasoning {
        text: &'a str,
    },
    ToolCall {
        id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    Usage {
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cached: Option<u64>,
    },
    Ended(EndedWire<'a>),
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum StageNameWire {
    Rewriting,
    Retrieval,
    Reranking,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum StageStatusWire {
    Started,
    Finished,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Citation")]
pub(super) struct CitationWire<'a> {
    pub(super) index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quote: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) struct EndedWire<'a> {
    pub(super) outcome: OutcomeWire,
    pub(super) cause: CauseWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_reason: Option<FinishWire>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "failure_codes")]
    pub(super) code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retryable: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum OutcomeWire {
    Done,
    Cancelled,
    Failed,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(super) enum FinishWire {
    Stop,
    Length,
    ToolCalls,
    Filtered,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum CauseWire {
    Model,
    Limit,
    UserInitiated,
    Timeout,
    Error,
    Abandoned,
    SessionEnded,
    Drain,
    Journal,
    Recovery,
    Bug,
}

impl StepWire<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Stage { .. } => "stage",
            Self::Rewritten { .. } => "rewritten",
            Self::Passages { .. } => "passages",
            Self::Citations { .. } => "citations",
            Self::Started { .. } => "started",
            Self::Text { .. } => "text",
            Self::Reasoning { .. } => "reasoning",
            Self::ToolCall { .. } => "toolCall",
            Self::Usage { .. } => "usage",
            Self::Ended(_) => "ended",
        }
    }
}
