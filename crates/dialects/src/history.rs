//! Lists of sessions and prompts, which the pages read. camelCase, as in the generation dialect.

use domain::{Prompt, PromptStatus, Rejection, Session, SessionId, SessionStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::generation::SessionStatusWire;
use crate::generation::wire::PromptReply;
use crate::{fields, json};

/// A page of sessions.
#[derive(Debug, PartialEq, Eq)]
pub struct SessionPage {
    /// Upper bound on the sessions of the page.
    pub limit: usize,
    /// Only sessions created before this one.
    pub before: Option<SessionId>,
}

/// Decodes the query of `GET /api/sessions`.
pub fn decode_page(limit: Option<&str>, before: Option<&str>) -> Result<SessionPage, Rejection> {
    let limit = fields::limit(limit)?;
    let before = before.map(|text| {
        text.parse().map_err(|_| {
            Rejection::Invalid(format!("before is {text:?}; it must be the next of an earlier page"))
        })
    });
    Ok(SessionPage { limit, before: before.transpose()? })
}

/// Decodes the query of `GET /api/prompts`.
pub fn decode_status(status: Option<&str>) -> Result<Option<PromptStatus>, Rejection> {
    Ok(Some(match status {
        None => return Ok(None),
        Some("in-flight") => PromptStatus::InFlight,
        Some("done") => PromptStatus::Done,
        Some("cancelled") => PromptStatus::Cancelled,
        Some("error") => PromptStatus::Error,
        Some(other) => {
            return Err(Rejection::Invalid(format!(
                "status is {other:?}; allowed: in-flight, done, cancelled, error"
            )));
        }
    }))
}

/// A page of sessions, newest first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sessions")]
pub struct SessionsReply<'a> {
    sessions: Vec<SessionItem<'a>>,
    /// The `before` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uuid"))]
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionInList")]
struct SessionItem<'a> {
    #[schemars(extend("format" = "uuid"))]
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    /// The session's first question.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    prompt_count: u64,
    token_count: u64,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    last_active_at: String,
    status: SessionStatusWire,
}

/// The reply to `GET /api/sessions`. A full page has a `next`.
pub fn sessions(sessions: &[(Session, SessionStatus)], limit: usize) -> Vec<u8> {
    let next = sessions.last().filter(|_| sessions.len() == limit).map(|(last, _)| last.id.to_string());
    let sessions = sessions.iter().map(|(session, status)| SessionItem::new(session, *status)).collect();
    json::reply(&SessionsReply { sessions, next })
}

impl<'a> SessionItem<'a> {
    fn new(session: &'a Session, status: SessionStatus) -> Self {
        Self {
            session_id: session.id.to_string(),
            owner: session.owner.as_deref(),
            title: session.title.as_deref(),
            prompt_count: session.prompt_count,
            token_count: session.token_count,
            created_at: session.created_at.to_string(),
            last_active_at: session.last_active_at.to_string(),
            status: status.into(),
        }
    }
}

/// A list of prompts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Prompts")]
pub struct PromptsReply<'a> {
    prompts: Vec<PromptReply<'a>>,
}

/// The reply to `GET /api/prompts`, and to the request for one session's prompts.
pub fn prompts<'a>(prompts: impl IntoIterator<Item = &'a Prompt>) -> Vec<u8> {
    json::reply(&PromptsReply { prompts: prompts.into_iter().map(PromptReply::from).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_20_sessions_by_default() {
        assert_eq!(decode_page(None, None).unwrap(), SessionPage { limit: 20, before: None });
        assert_eq!(decode_page(Some("100"), None).unwrap().limit, 100);
        for bad in ["0", "101", "-1", "x", ""] {
            assert!(
                matches!(decode_page(Some(bad), None), Err(Rejection::Invalid(message)) if message.contains("1 to 100"))
            );
        }
        assert!(matches!(decode_page(None, Some("x")), Err(Rejection::Invalid(_))));
    }

    #[test]
    fn a_status_is_one_of_four() {
        assert_eq!(decode_status(None).unwrap(), None);
        assert_eq!(decode_status(Some("in-flight")).unwrap(), Some(PromptStatus::InFlight));
        assert!(
            matches!(decode_status(Some("odd")), Err(Rejection::Invalid(message)) if message.contains("in-flight, done"))
        );
    }
}
