//! Stored forms of the model, its tool calls and its usage. A new field needs a default; no field may change its
//! meaning.

use domain::{ModelId, ToolCall, Usage};
use serde::{Deserialize, Serialize};

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
