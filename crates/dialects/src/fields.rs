//! Request fields that several dialects share.

use std::ops::RangeInclusive;

use domain::{Rejection, SessionId, TOP_K};
use serde_json::{Value, json};

pub(crate) const DEFAULT_TOP_K: i64 = 5;

/// Pattern of a text with at least one character that is not white space.
pub(crate) const NOT_BLANK: &str = r"\S";

/// Pattern of a UUID in lower case with hyphens.
pub(crate) const LOWER_CASE_UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";

/// Bounds of `limit`.
const LIMIT: RangeInclusive<usize> = 1..=100;
const DEFAULT_LIMIT: usize = 20;

/// Checks the number of passages to retrieve.
pub(crate) fn top_k(name: &str, given: Option<i64>) -> Result<u32, Rejection> {
    let given = given.unwrap_or(DEFAULT_TOP_K);
    let top_k = u32::try_from(given).ok().filter(|top_k| TOP_K.contains(top_k));
    top_k.ok_or_else(|| {
        Rejection::Invalid(format!("{name} is {given}; it must be {} to {}", TOP_K.start(), TOP_K.end()))
    })
}

/// Checks that a question is not blank and has at most `max` characters.
pub(crate) fn question(name: &str, text: String, max: usize) -> Result<String, Rejection> {
    if text.trim().is_empty() {
        return Err(Rejection::Invalid(format!(
            "{name} is empty: it must have at least one character that is not white space"
        )));
    }
    bounded(name, text, max)
}

/// Checks that a text has at most `max` characters.
pub(crate) fn bounded(name: &str, text: String, max: usize) -> Result<String, Rejection> {
    match text.chars().count() {
        chars if chars > max => {
            Err(Rejection::Invalid(format!("{name} has {chars} characters; at most {max} are allowed")))
        }
        _ => Ok(text),
    }
}

/// Parses a session id as the chat dialects write it: a UUID in lower case with hyphens.
pub(crate) fn session(text: &str) -> Option<SessionId> {
    text.parse().ok().filter(|id: &SessionId| id.to_string() == text)
}

/// Parses the session id in a body.
pub(crate) fn session_in_body(text: &str) -> Result<SessionId, Rejection> {
    session(text).ok_or_else(|| {
        Rejection::Invalid(format!(
            "session_id is {text:?}; it must be a UUID in lower case with hyphens, such as 550e8400-e29b-41d4-a716-446655440000"
        ))
    })
}

/// The JSON Schema of `limit`.
pub fn limit_schema() -> Value {
    json!({
        "type": "integer", "minimum": LIMIT.start(), "maximum": LIMIT.end(), "default": DEFAULT_LIMIT,
    })
}

/// Decodes the `limit` of a list.
pub(crate) fn limit(given: Option<&str>) -> Result<usize, Rejection> {
    let Some(text) = given else { return Ok(DEFAULT_LIMIT) };
    text.parse().ok().filter(|limit| LIMIT.contains(limit)).ok_or_else(|| {
        Rejection::Invalid(format!("limit is {text:?}; it must be {} to {}", LIMIT.start(), LIMIT.end()))
    })
}
