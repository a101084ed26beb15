//! Refusals as responses.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialects::generation::Rejected;
use domain::{Rejection, StorageError, TraceId};

/// A refusal on its way out; `X-Trace-Id` is set by the door, as on every response.
pub(crate) struct Refusal {
    pub(crate) rejected: Rejected,
    pub(crate) trace: TraceId,
}

impl Refusal {
    pub(crate) fn new(trace: TraceId, rejected: impl Into<Rejected>) -> Self {
        Self { rejected: rejected.into(), trace }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.rejected.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(trace = %self.trace, code = self.rejected.code, reason = self.rejected.message, "refused");
        }
        let mut response = json(status, self.rejected.body(self.trace));
        if let Some(wait) = self.rejected.retry_after {
            let seconds = wait.as_secs_f64().ceil().max(1.0).to_string();
            response
                .headers_mut()
                .extend(HeaderValue::try_from(seconds).ok().map(|seconds| (header::RETRY_AFTER, seconds)));
        }
        response.extensions_mut().insert(Code(self.rejected.code));
        response
    }
}

/// What a response refuses with, for those who count.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) &'static str);

/// Lets handlers use `?` on whatever the engine and the dialects refuse.
pub(crate) trait Refuse<T> {
    fn or_refuse(self, trace: TraceId) -> Result<T, Refusal>;
}

impl<T> Refuse<T> for Result<T, Rejection> {
    fn or_refuse(self, trace: TraceId) -> Result<T, Refusal> {
        self.map_err(|rejection| Refusal::new(trace, rejection))
    }
}

impl<T> Refuse<T> for Result<T, StorageError> {
    fn or_refuse(self, trace: TraceId) -> Result<T, Refusal> {
        self.map_err(|error| Refusal::new(trace, Rejection::from(error)))
    }
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
}
