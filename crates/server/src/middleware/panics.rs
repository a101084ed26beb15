//! A handler that panics returns an error response, and the server goes on.

use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dialects::ErrorReply;
use futures::FutureExt;
use tracing::{Instrument, error_span};

use super::trace_of;
use crate::api_error::ApiError;

/// Runs the handler in a span with its trace id, so that the panic's own log line has it.
pub(super) async fn catch_panic(request: Request, next: Next) -> Response {
    let span = error_span!("request", trace = %trace_of(request.extensions()));
    AssertUnwindSafe(next.run(request).instrument(span))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| ApiError::from(internal_error()).into_response())
}

pub(super) fn internal_error() -> ErrorReply {
    ErrorReply::new(500, "internal_error", "something is broken on our side; the log has this trace id")
}
