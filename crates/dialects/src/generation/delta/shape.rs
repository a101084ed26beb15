//! The shape of a delta.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::super::source::Source;
use crate::failures::delta_codes;

/// The prompt of the examples.
const EXAMPLE: &str = "0190a0b0-0000-7000-8000-000000000001";

/// A single streaming token delta event emitted to clients. A prompt has tokens, then one `done` or `error`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    rename = "GenerationDelta",
    example = json!({"promptId": EXAMPLE, "type": "token", "seq": 0, "text": "This ", "role": "assistant"}),
    example = json!({
        "promptId": EXAMPLE, "type": "error", "seq": 5, "role": "system",
        "metadata": {
            "code": "provider_timeout", "message": "Provider stalled for 30s with no tokens", "retryable": true
        }
    }),
)]
pub struct Delta<'a> {
    /// Parent prompt identifier.
    #[schemars(extend("format" = "uuid"))]
    pub(super) prompt_id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    /// Monotonic sequence number (0-based), without a gap over all deltas of a prompt.
    pub(super) seq: u64,
    /// Token delta text; only a token has one, and it is not empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub(super) text: Option<&'a str>,
    pub(super) role: Role,
    /// Of `done` how the answer came about, of `error` what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Metadata<'a>>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Kind {
    Token,
    Done,
    Error,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Done => "done",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Role {
    Assistant,
    System,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(super) enum Metadata<'a> {
    Done(Done<'a>),
    Error(Error<'a>),
}

/// How an answer came about.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "GenerationDone")]
pub(super) struct Done<'a> {
    pub(super) token_count: u64,
    pub(super) finish_reason: FinishWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_to_first_token_ms: Option<u64>,
    pub(super) tokens_per_second: f64,
    #[schemars(with = "u64")]
    pub(super) retrieval_ms: u128,
    /// Tokens of the prompt that the model did not have to read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cached_tokens: Option<u64>,
    /// The passages that were in the prompt, in its order.
    pub(super) sources: Vec<Source<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) cancelled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum FinishWire {
    Stop,
    Length,
    Cancelled,
}

/// What went wrong.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "GenerationError")]
pub(super) struct Error<'a> {
    #[schemars(schema_with = "delta_codes")]
    pub(super) code: &'static str,
    pub(super) message: &'a str,
    /// Whether asking again may help.
    pub(super) retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idempotency_key: Option<&'a str>,
}
