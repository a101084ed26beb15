//! The request of the staged dialect.

use domain::{Ask, OnDisconnect, Question, Rejection, SearchScope, SessionPolicy, TraceId, WhenNothingFound};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{fields, json};

const MESSAGE_CHARS: usize = 5_000;

/// Request to initiate SSE streaming.
#[derive(Deserialize, JsonSchema)]
#[schemars(
    rename = "StagedRequest",
    example = json!({
        "message": "What are the side effects of aripiprazole?",
        "session_id": "550e8400-e29b-41d4-a716-446655440000"
    })
)]
pub struct StreamRequest {
    /// User's chat message/query
    #[schemars(length(min = 1, max = MESSAGE_CHARS), regex(pattern = fields::NOT_BLANK))]
    message: String,
    /// Session identifier for conversation context
    #[schemars(regex(pattern = fields::LOWER_CASE_UUID))]
    session_id: String,
}

/// Decodes this dialect's `POST /chat/stream`.
pub fn decode(body: &[u8], trace: TraceId) -> Result<Ask, Rejection> {
    let request: StreamRequest = json::parse(body)?;
    let text = fields::question("message", request.message, MESSAGE_CHARS)?;
    let session = fields::session_in_body(&request.session_id)?;
    let top_k = fields::top_k("top_k", None)?;
    Ok(Ask {
        session,
        session_policy: SessionPolicy::ReviveExpired,
        question: Question { text, top_k, scope: SearchScope::default(), threshold: None, provider: None },
        when_nothing_found: WhenNothingFound::Answer,
        on_disconnect: OnDisconnect::Cancel,
        key: None,
        trace,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn decode_message(message: &str, session: &str) -> Result<Ask, Rejection> {
        let body = serde_json::json!({"message": message, "session_id": session, "top_k": 3});
        decode(body.to_string().as_bytes(), TraceId::random())
    }

    #[test]
    fn message_length() {
        for (message, is_good) in [
            ("", false),
            (" \n\t\u{3000}", false),
            ("a", true),
            (&*"🙂".repeat(5_000), true),
            (&*"a".repeat(5_001), false),
        ] {
            assert_eq!(decode_message(message, SESSION).is_ok(), is_good, "{} bytes", message.len());
        }
    }

    #[test]
    fn an_expired_session_is_revived_and_a_disconnect_cancels() {
        let ask = decode_message("why?", SESSION).unwrap();
        assert_eq!(
            (ask.session.to_string().as_str(), ask.session_policy),
            (SESSION, SessionPolicy::ReviveExpired)
        );
        assert_eq!(
            (ask.when_nothing_found, ask.on_disconnect),
            (WhenNothingFound::Answer, OnDisconnect::Cancel)
        );
        assert_eq!((ask.question.text.as_str(), ask.question.top_k), ("why?", 5), "other fields are ignored");
    }

    #[test]
    fn a_session_is_a_uuid_in_lower_case_with_hyphens() {
        for bad in ["", "mine", &SESSION.to_uppercase(), &SESSION.replace('-', ""), &format!("{{{SESSION}}}")]
        {
            assert!(matches!(decode_message("why?", bad), Err(Rejection::Invalid(_))), "{bad}");
        }
    }
}
