//! Error responses. A handler or a middleware returns an [`ApiError`]; the outermost middleware renders it,
//! since only there are both the dialect of the path and the trace id known.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialects::{ErrorFormat, ErrorReply};
use domain::{Rejection, StorageError, TraceId};

use crate::routes::JSON;

/// Why a request fails.
#[derive(Clone, Debug)]
pub(crate) enum ApiError {
    /// A rejection of the domain, for which each dialect has its own status and code.
    Domain(Rejection),
    /// An error with the same status and code in every dialect.
    Http(ErrorReply),
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        Self::Domain(rejection)
    }
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        Self::Domain(error.into())
    }
}

impl From<ErrorReply> for ApiError {
    fn from(reply: ErrorReply) -> Self {
        Self::Http(reply)
    }
}

impl ApiError {
    /// Status, code and message of this error in the format of a dialect.
    pub(crate) fn in_format(&self, format: ErrorFormat) -> ErrorReply {
        match self {
            Self::Domain(rejection) => format.rejected(rejection),
            Self::Http(reply) => reply.clone(),
        }
    }
}

/// Attaches the error to an otherwise empty response, for [`render`].
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The code of a rendered error, which the metrics count.
#[derive(Clone, Copy)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// Writes the error that is attached to a response as its body; other responses stay as they are.
pub(crate) fn render(response: Response, format: ErrorFormat, trace: TraceId) -> Response {
    let (mut parts, body) = response.into_parts();
    let Some(error) = parts.extensions.remove::<ApiError>() else {
        return Response::from_parts(parts, body);
    };
    let reply = error.in_format(format);
    parts.status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if parts.status.is_server_error() {
        tracing::warn!(%trace, code = reply.code, reason = reply.message, "request failed");
    }
    parts.headers.insert(header::CONTENT_TYPE, JSON);
    parts.headers.remove(header::CONTENT_LENGTH);
    if let Some(wait) = reply.retry_after {
        let seconds = wait.as_secs_f64().ceil().max(1.0).to_string();
        let seconds = HeaderValue::try_from(seconds).ok();
        parts.headers.extend(seconds.map(|seconds| (header::RETRY_AFTER, seconds)));
    }
    parts.extensions.insert(ErrorCode(reply.code));
    Response::from_parts(parts, Body::from(format.body(&reply, trace)))
}
