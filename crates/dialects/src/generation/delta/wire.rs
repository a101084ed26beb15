//! The wire structs of a delta.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::generation::errors::FailureWire;
use crate::generation::source::SourceWire;

/// The prompt id of the examples.
const EXAMPLE: &str = "0190a0b0-0000-7000-8000-000000000001";

/// A single streaming token delta event emitted to clients. A prompt has `token` deltas, then one `done` or `error`.
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
    pub(super) kind: DeltaKind,
    /// Monotonic sequence number (0-based), without gaps over all deltas of a prompt.
    pub(super) seq: u64,
    /// Token delta text, never empty. Only `token` deltas have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub(super) text: Option<&'a str>,
    pub(super) role: DeltaRole,
    /// Of `done` the facts about the answer, of `error` what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<DeltaMetadata<'a>>,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum DeltaKind {
    Token,
    Done,
    Error,
}

impl DeltaKind {
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
pub(super) enum DeltaRole {
    Assistant,
    System,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(super) enum DeltaMetadata<'a> {
    Done(DoneWire<'a>),
    Error(FailureWire<'a>),
}

/// Facts about a finished answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "GenerationDone")]
pub(super) struct DoneWire<'a> {
    /// Number of `token` deltas.
    pub(super) token_count: u64,
    pub(super) finish_reason: FinishWire,
    /// Name of the provider that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<&'a str>,
    /// Name of the model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    /// Milliseconds from the acceptance of the prompt to its first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_to_first_token_ms: Option<u64>,
    /// Tokens per second from the first token to the end of the answer.
    pub(super) tokens_per_second: f64,
    /// Milliseconds of retrieval and reranking.
    #[schemars(with = "u64")]
    pub(super) retrieval_ms: u128,
    /// Tokens of the prompt that came from the provider's prefix cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cached_tokens: Option<u64>,
    /// The passages in the prompt, in prompt order.
    pub(super) sources: Vec<SourceWire<'a>>,
    /// Idempotency key of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idempotency_key: Option<&'a str>,
    /// Present and true if the prompt was cancelled before the answer was complete.
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
