//! Streams in a description. OpenAPI 3.1 has no word for what a stream is made of, so this is as its users read it: of
//! NDJSON the schema is that of all lines as a list, of server-sent events that of one event.

use dialects::sse;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::Answer;

/// The ways a log is answered with.
pub(crate) struct Stream;

impl Stream {
    /// A JSON object a line, or the same as server-sent events with an id and a name, as `Accept` says.
    pub(crate) fn lines_or_events<T: JsonSchema>(description: &'static str) -> Answer {
        Answer::empty(description)
            .content("application/x-ndjson", SchemaGenerator::subschema_for::<Vec<T>>)
            .content(sse::CONTENT_TYPE, named_event::<T>)
            .naming()
    }

    /// Server-sent events with an id and a name.
    pub(crate) fn events<T: JsonSchema>(description: &'static str) -> Answer {
        Answer::empty(description).content(sse::CONTENT_TYPE, named_event::<T>).naming()
    }

    /// Server-sent events that are nothing but data.
    pub(crate) fn bare_events<T: JsonSchema>(description: &'static str) -> Answer {
        Answer::empty(description).content(sse::CONTENT_TYPE, bare_event::<T>).naming()
    }
}

fn named_event<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]+$"},
            "event": {"type": "string", "description": "The type of what the data is."},
            "data": data::<T>(generator),
        },
    })
}

fn bare_event<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "required": ["data"], "properties": {"data": data::<T>(generator)}})
}

fn data<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": generator.subschema_for::<T>(),
    })
}
