//! Fields that several dialects read alike.

use std::ops::RangeInclusive;

use domain::{Rejection, SessionId, TOP_K};
use serde_json::{Value, json};

pub(crate) const DEFAULT_TOP_K: i64 = 5;

/// A text of which something is not white space, as a regular expression.
pub(crate) const NOT_BLANK: &str = r"\S";

/// A UUID in lower case, with its hyphens, as a regular expression.
pub(crate) const LOWER_CASE_UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";

/// Entries of a page, and how many it has if nobody says.
const PAGE: RangeInclusive<usize> = 1..=100;
const DEFAULT_PAGE: usize = 20;

/// How many passages are asked for.
pub(crate) fn top_k(name: &str, given: Option<i64>) -> Result<u32, Rejection> {
    let given = given.unwrap_or(DEFAULT_TOP_K);
    let top_k = u32::try_from(given).ok().filter(|top_k| TOP_K.contains(top_k));
    top_k.ok_or_else(|| {
        Rejection::Invalid(format!("{name} is {given}; it must be {} to {}", TOP_K.start(), TOP_K.end()))
    })
}

/// A question that has at most so many characters, and one that is not white space.
pub(crate) fn question(name: &str, text: String, most: usize) -> Result<String, Rejection> {
    if text.trim().is_empty() {
        return Err(Rejection::Invalid(format!(
            "{name} is empty: it must have at least one character that is not white space"
        )));
    }
    bounded(name, text, most)
}

/// A text that has at most so many characters.
pub(crate) fn bounded(name: &str, text: String, most: usize) -> Result<String, Rejection> {
    match text.chars().count() {
        chars if chars > most => {
            Err(Rejection::Invalid(format!("{name} has {chars} characters; at most {most} are allowed")))
        }
        _ => Ok(text),
    }
}

/// A session's id as the chat dialects write it: a UUID in lower case, with its hyphens.
pub(crate) fn session(text: &str) -> Option<SessionId> {
    text.parse().ok().filter(|id: &SessionId| id.to_string() == text)
}

/// The same, in a body.
pub(crate) fn session_in_body(text: &str) -> Result<SessionId, Rejection> {
    session(text).ok_or_else(|| {
        Rejection::Invalid(format!(
            "session_id is {text:?}; it must be a UUID in lower case with hyphens, such as 550e8400-e29b-41d4-a716-446655440000"
        ))
    })
}

/// What `limit` must be, as JSON Schema.
pub fn limit_schema() -> Value {
    json!({
        "type": "integer", "minimum": PAGE.start(), "maximum": PAGE.end(), "default": DEFAULT_PAGE,
    })
}

/// How many entries a list may have.
pub(crate) fn limit(given: Option<&str>) -> Result<usize, Rejection> {
    let Some(text) = given else { return Ok(DEFAULT_PAGE) };
    text.parse().ok().filter(|limit| PAGE.contains(limit)).ok_or_else(|| {
        Rejection::Invalid(format!("limit is {text:?}; it must be {} to {}", PAGE.start(), PAGE.end()))
    })
}
