//! The messages of a session.

use domain::{Exchange, Rejection, SessionId};
use schemars::JsonSchema;
use serde::Serialize;

use super::provenance::{ModeWire, mode};
use super::source::{SourceWire, sources};
use crate::{fields, json};

/// Decodes the `limit` of `GET /conversations/{session_id}`.
pub fn decode_limit(limit: Option<&str>) -> Result<usize, Rejection> {
    fields::limit(limit)
}

/// The messages of a session, oldest first.
#[derive(Serialize, JsonSchema)]
pub struct Conversation<'a> {
    #[schemars(extend("format" = "uuid"))]
    session_id: String,
    messages: Vec<MessageWire<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Message")]
struct MessageWire<'a> {
    /// Id of the message: the prompt's id for a question, its own for an answer.
    #[schemars(extend("format" = "uuid"))]
    id: String,
    role: RoleWire,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<Vec<SourceWire>>,
    mode: ModeWire,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum RoleWire {
    User,
    Assistant,
}

/// The number of exchanges that hold this many messages.
pub fn exchanges(messages: usize) -> usize {
    messages.div_ceil(2)
}

/// The reply to `GET /conversations/{session_id}`: the newest `limit` messages of these exchanges, oldest first.
pub fn conversation(session: SessionId, exchanges: &[Exchange], limit: usize) -> Vec<u8> {
    let mut messages: Vec<_> = exchanges.iter().flat_map(messages).collect();
    messages.drain(..messages.len().saturating_sub(limit));
    json::reply(&Conversation { session_id: session.to_string(), messages })
}

fn messages(exchange: &Exchange) -> [MessageWire<'_>; 2] {
    let mode = mode(&exchange.scope);
    let question = MessageWire {
        id: exchange.prompt.to_string(),
        role: RoleWire::User,
        content: &exchange.turn.question,
        sources: None,
        mode,
        created_at: exchange.asked_at.to_string(),
    };
    let answer = MessageWire {
        id: exchange.answer.to_string(),
        role: RoleWire::Assistant,
        content: &exchange.turn.answer,
        sources: Some(sources(&exchange.passages.in_prompt)),
        mode,
        created_at: exchange.answered_at.to_string(),
    };
    [question, answer]
}

#[cfg(test)]
mod tests {
    use domain::{MessageId, RetrievedPassages, SearchScope, Turn};
    use serde_json::Value;

    use super::*;
    use crate::fixture::{PROMPT, SESSION, at, passage};

    fn exchange(number: i64) -> Exchange {
        Exchange {
            prompt: PROMPT.parse().unwrap(),
            answer: MessageId::new(at(number)),
            asked_at: at(number * 2_000_000),
            answered_at: at(number * 2_000_000 + 1_000_000),
            scope: SearchScope::default(),
            turn: Turn { question: format!("q{number}"), answer: format!("a{number}") },
            passages: RetrievedPassages { found: 1, in_prompt: vec![passage("Water runs.", None, (1, 1))] },
        }
    }

    fn reply(messages: usize) -> Value {
        let all: Vec<_> = (0..3).map(exchange).collect();
        let asked = &all[all.len() - exchanges(messages).min(all.len())..];
        serde_json::from_slice(&conversation(SESSION.parse().unwrap(), asked, messages)).unwrap()
    }

    #[test]
    fn the_newest_messages_are_listed_oldest_first() {
        for (limit, expected) in [
            (1, vec!["a2"]),
            (2, vec!["q2", "a2"]),
            (3, vec!["a1", "q2", "a2"]),
            (6, vec!["q0", "a0", "q1", "a1", "q2", "a2"]),
            (100, vec!["q0", "a0", "q1", "a1", "q2", "a2"]),
        ] {
            let reply = reply(limit);
            let contents: Vec<_> =
                reply["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
            assert_eq!(contents, expected, "{limit}");
        }
    }

    #[test]
    fn a_message_has_its_role_and_time() {
        let reply = reply(2);
        assert_eq!(reply["session_id"], SESSION);
        let (question, answer) = (&reply["messages"][0], &reply["messages"][1]);
        assert_eq!((&question["role"], &question["id"]), (&"user".into(), &PROMPT.into()));
        assert_eq!(question["created_at"], "2026-02-02T02:40:04.000Z");
        assert_eq!(question.get("sources"), None);
        assert_eq!((&answer["role"], &answer["mode"]), (&"assistant".into(), &"general".into()));
        assert_eq!(answer["created_at"], "2026-02-02T02:40:05.000Z");
        assert_eq!(answer["sources"][0]["chunk_text"], "Water runs.");
        assert_ne!(answer["id"], question["id"]);
    }
}
