//! All routes, one file for each group of endpoints: paths, their description, their handlers. A handler
//! extracts, decodes, calls the engine or a port, and encodes.

mod chat;
mod docs;
mod generation;
mod health;
mod history;
mod knowledge;
mod operations;
mod staged;

use std::str::FromStr;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialects::{ErrorFormat, ErrorReply};

use crate::api_error::ApiError;
use crate::app::AppState;
use crate::openapi::Routes;

/// Every route with its description, in the order of the API documentation.
pub(crate) fn all() -> Routes {
    generation::routes()
        .merge(chat::routes())
        .merge(staged::routes())
        .merge(knowledge::routes())
        .merge(history::routes())
        .merge(health::routes())
        .merge(operations::routes())
        .merge(docs::routes())
}

/// The router, with errors for unknown paths and methods.
pub(crate) fn router() -> Router<AppState> {
    all().into_router().fallback(unknown_route).method_not_allowed_fallback(unknown_method)
}

/// The format of errors on this path, which is that of its dialect.
pub(crate) fn error_format_of(path: &str) -> ErrorFormat {
    let is_in = |folder: &str| path.strip_prefix(folder).is_some_and(|name| !name.contains('/'));
    if matches!(path, "/chat" | "/chat/stream") || is_in("/chat/stream/") || is_in("/conversations/") {
        ErrorFormat::Chat
    } else {
        ErrorFormat::Generation
    }
}

/// The content type of a JSON body.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response with an encoded JSON body.
fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], Body::from(body)).into_response()
}

async fn unknown_route(request: Request) -> ApiError {
    let message = format!("there is nothing at {}", request.uri().path());
    ErrorReply::new(404, "not_found", message).into()
}

async fn unknown_method(request: Request) -> ApiError {
    let message = format!("{} does not take {}", request.uri().path(), request.method());
    ErrorReply::new(405, "method_not_allowed", message).into()
}

/// An id in a path, which may not even be UTF-8.
type PathId = Result<Path<String>, PathRejection>;

/// The id as text, if it is UTF-8.
fn path_text(id: &PathId) -> Option<&str> {
    id.as_ref().ok().map(|Path(id)| id.as_str())
}

/// The parsed id. `None` for anything that is not a UUID, which handlers report as not found.
fn parse_id<Id: FromStr>(id: PathId) -> Option<Id> {
    id.ok().and_then(|Path(id)| id.parse().ok())
}

/// The first value of a name in a query string.
fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.find(|(given, _)| given == name).map(|(_, value)| value.into_owned())
}

/// A header as text. One that is not UTF-8 reads as empty: it is refused as a key or a position, and is no preference in
/// `Accept`.
fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| str::from_utf8(value.as_bytes()).unwrap_or_default())
}
