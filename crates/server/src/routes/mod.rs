//! All routes. A handler extracts, decodes, hands to the engine and answers; no rule lives here.

mod chat;
mod description;
mod generation;
mod health;
mod history;
mod knowledge;
mod operations;
mod staged;

use std::str::FromStr;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, HeaderName};
use dialects::{Rejected, Words};

use crate::openapi::Routes;
use crate::refusal::Refusal;
use crate::serve::App;

/// Every route and its description, in the order that they are described in.
pub(crate) fn all() -> Routes {
    generation::routes()
        .and(chat::routes())
        .and(staged::routes())
        .and(knowledge::routes())
        .and(history::routes())
        .and(health::routes())
        .and(operations::routes())
        .and(description::routes())
}

/// Answers whatever is asked.
pub(crate) fn router() -> Router<App> {
    all().into_router().fallback(unknown_route).method_not_allowed_fallback(unknown_method)
}

/// Whose words a refusal of this path is told in.
pub(crate) fn words(path: &str) -> Words {
    let is_in = |folder: &str| path.strip_prefix(folder).is_some_and(|name| !name.contains('/'));
    if matches!(path, "/chat" | "/chat/stream") || is_in("/chat/stream/") || is_in("/conversations/") {
        Words::Chat
    } else {
        Words::Generation
    }
}

async fn unknown_route(request: Request) -> Refusal {
    let message = format!("there is nothing at {}", request.uri().path());
    Rejected::new(404, "not_found", message).into()
}

async fn unknown_method(request: Request) -> Refusal {
    let message = format!("{} does not take {}", request.uri().path(), request.method());
    Rejected::new(405, "method_not_allowed", message).into()
}

/// An id that may not even be text.
type InPath = Result<Path<String>, PathRejection>;

/// The id in a path, if it is text.
fn in_path(id: &InPath) -> Option<&str> {
    id.as_ref().ok().map(|Path(id)| id.as_str())
}

/// The id in a path; what is no UUID names nothing.
fn named<Id: FromStr>(id: InPath) -> Option<Id> {
    id.ok().and_then(|Path(id)| id.parse().ok())
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The first value of a name in a query string.
fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.find(|(given, _)| given == name).map(|(_, value)| value.into_owned())
}

/// A header as text; one that is no text reads as empty, so that it is refused as a bad value.
fn text_header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| str::from_utf8(value.as_bytes()).unwrap_or_default())
}
