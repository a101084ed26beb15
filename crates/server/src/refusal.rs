//! Refusals on their way out. Whoever refuses says why; the door tells it in the words of the dialect that was called.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialects::{Rejected, Words};
use domain::{Rejection, StorageError, TraceId};

/// Why a call is refused.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// Every dialect has its own word for it.
    Rejection(Rejection),
    /// The same in all of them.
    Rejected(Rejected),
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Rejection(rejection)
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        Self::Rejection(error.into())
    }
}

impl From<Rejected> for Refusal {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}

/// A response that has nothing but its refusal, and does not leave without the door having told it.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// What a response refuses with, for those who count.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) &'static str);

/// Tells the refusal that a response has, if it has one.
pub(crate) fn tell(response: Response, words: Words, trace: TraceId) -> Response {
    let (mut parts, body) = response.into_parts();
    let rejected = match parts.extensions.remove() {
        Some(Refusal::Rejection(rejection)) => words.rejected(&rejection),
        Some(Refusal::Rejected(rejected)) => rejected,
        None => return Response::from_parts(parts, body),
    };
    parts.status = StatusCode::from_u16(rejected.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if parts.status.is_server_error() {
        tracing::warn!(%trace, code = rejected.code, reason = rejected.message, "refused");
    }
    parts.headers.insert(header::CONTENT_TYPE, JSON);
    parts.headers.remove(header::CONTENT_LENGTH);
    if let Some(wait) = rejected.retry_after {
        let seconds = wait.as_secs_f64().ceil().max(1.0).to_string();
        let seconds = HeaderValue::try_from(seconds).ok();
        parts.headers.extend(seconds.map(|seconds| (header::RETRY_AFTER, seconds)));
    }
    parts.extensions.insert(Code(rejected.code));
    Response::from_parts(parts, Body::from(words.body(&rejected, trace)))
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], Body::from(body)).into_response()
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
