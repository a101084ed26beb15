//! `POST /chat/stream`, the path of two dialects. The fields of the body select the chat or the staged dialect.

use domain::{Ask, Rejection, SessionId, TraceId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::chat::wire::ChatRequest;
use crate::chat::{self, ChatEncoder, ChatEventWire};
use crate::staged::wire::{StreamEvent, StreamRequest};
use crate::staged::{self, StagedEncoder};
use crate::{Encoder, json};

/// The body in either dialect.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum ChatStreamRequest {
    /// The chat dialect's.
    Chat(ChatRequest),
    /// The staged dialect's.
    Staged(StreamRequest),
}

/// An event of a stream, in either dialect.
#[derive(JsonSchema)]
pub struct ChatStreamEvent<'a>(#[expect(dead_code, reason = "only its schema is used")] EitherEvent<'a>);

#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum EitherEvent<'a> {
    Chat(ChatEventWire<'a>),
    Staged(StreamEvent<'a>),
}

/// The fields that select the dialect.
#[derive(Deserialize)]
struct DialectFields {
    query: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
}

/// Decodes the body, and returns the encoder of its dialect.
pub fn decode(body: &[u8], fresh: SessionId, trace: TraceId) -> Result<(Ask, Box<dyn Encoder>), Rejection> {
    let fields: DialectFields = json::parse(body)?;
    match (fields.query, fields.message) {
        (Some(_), None) => Ok((chat::decode(body, fresh, trace)?, Box::new(ChatEncoder::new()))),
        (None, Some(_)) => Ok((staged::decode(body, trace)?, Box::new(StagedEncoder::default()))),
        (Some(_), Some(_)) => {
            Err(Rejection::Invalid("there is a query and a message: send one of them".to_owned()))
        }
        (None, None) => {
            Err(Rejection::Invalid("there is neither a query nor a message: send one of them".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{PROMPT, SESSION, encode, log, text};

    /// The first event of the stream that a body starts.
    fn first_event(body: &str) -> Result<String, Rejection> {
        let (_, encoder) = decode(body.as_bytes(), PROMPT.parse().unwrap(), TraceId::random())?;
        Ok(encode(&log(vec![(0, text("a"))]), encoder))
    }

    #[test]
    fn the_fields_of_the_body_select_the_dialect() {
        let staged = format!(r#"{{"message":"why?","session_id":"{SESSION}","query":null}}"#);
        assert!(first_event(&staged).unwrap().starts_with(r#"data: {"type":"token","#));
        assert!(first_event(r#"{"query":"why?"}"#).unwrap().starts_with(r#"data: {"type":"chunk","#));
        for (body, named) in [
            (r#"{"query":"why?","message":"why?"}"#, "a query and a message"),
            (r#"{"session_id":"x"}"#, "neither a query nor a message"),
            (r#"{"message":"why?"}"#, "missing field `session_id`"),
            (r#"{"query":5}"#, "query:"),
            ("{", "not JSON"),
            ("", "not a JSON object"),
        ] {
            let Err(Rejection::Invalid(message)) = first_event(body) else { panic!("{body} is accepted") };
            assert!(message.contains(named), "{body}: {message}");
        }
    }
}
