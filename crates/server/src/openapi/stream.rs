//! Streams in the description. OpenAPI 3.1 cannot describe the items of a stream, so this follows its users'
//! convention: the schema of NDJSON is the list of all lines, that of server-sent events is one event.

use dialects::sse;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::ResponseDoc;

/// Descriptions of streamed responses.
pub(crate) struct StreamDoc;

impl StreamDoc {
    /// NDJSON, or server-sent events with an id and a name where `Accept` prefers them.
    pub(crate) fn lines_or_events<T: JsonSchema>(description: &'static str) -> ResponseDoc {
        ResponseDoc::empty(description)
            .content("application/x-ndjson", SchemaGenerator::subschema_for::<Vec<T>>)
            .content(sse::CONTENT_TYPE, named_event::<T>)
            .prompt_headers()
    }

    /// Server-sent events with an id and a name.
    pub(crate) fn events<T: JsonSchema>(description: &'static str) -> ResponseDoc {
        ResponseDoc::empty(description).content(sse::CONTENT_TYPE, named_event::<T>).prompt_headers()
    }

    /// Server-sent events without id and name.
    pub(crate) fn data_only_events<T: JsonSchema>(description: &'static str) -> ResponseDoc {
        ResponseDoc::empty(description).content(sse::CONTENT_TYPE, data_only_event::<T>).prompt_headers()
    }
}

fn named_event<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]+$"},
            "event": {"type": "string", "description": "The `type` of the data."},
            "data": data::<T>(generator),
        },
    })
}

fn data_only_event<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "required": ["data"], "properties": {"data": data::<T>(generator)}})
}

fn data<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": generator.subschema_for::<T>(),
    })
}
