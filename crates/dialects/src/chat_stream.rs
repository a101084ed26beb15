//! `POST /chat/stream`, which two dialects share: the body tells which of them is spoken.

use domain::{Ask, Rejection, SessionId, TraceId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::chat::wire::ChatRequest;
use crate::chat::{self, ChatEncoder};
use crate::staged::wire::{StreamEvent, StreamRequest};
use crate::staged::{self, StagedEncoder};
use crate::{Encoder, json};

/// The body in either dialect.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ChatStreamRequest")]
pub enum Request {
    /// The chat dialect's.
    Chat(ChatRequest),
    /// The staged dialect's.
    Staged(StreamRequest),
}

/// An event of a stream, in either dialect.
#[derive(JsonSchema)]
#[schemars(rename = "ChatStreamEvent")]
pub struct Told<'a>(#[expect(dead_code, reason = "it is only described")] EitherTold<'a>);

#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "it is only described")]
enum EitherTold<'a> {
    Chat(chat::Told<'a>),
    Staged(StreamEvent<'a>),
}

#[derive(Deserialize)]
struct Either {
    query: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
}

/// Reads the body in the dialect that it is in, and tells how the answer is encoded there.
pub fn decode(body: &[u8], fresh: SessionId, trace: TraceId) -> Result<(Ask, Box<dyn Encoder>), Rejection> {
    let either: Either = json::parse(body)?;
    match (either.query, either.message) {
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
    use crate::logs::{PROMPT, SESSION, encode, log, text};

    /// What the stream of a body begins with.
    fn first_event(body: &str) -> Result<String, Rejection> {
        let (_, encoder) = decode(body.as_bytes(), PROMPT.parse().unwrap(), TraceId::random())?;
        Ok(encode(&log(vec![(0, text("a"))]), encoder))
    }

    #[test]
    fn the_body_tells_which_dialect_is_spoken() {
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
