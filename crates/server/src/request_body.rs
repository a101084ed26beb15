//! Request bodies: bounded in size and time. They are read as JSON whatever their content type says, except
//! from pages of other origins: those must send `application/json`, which makes a browser ask for permission
//! first (CORS preflight).

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use dialects::ErrorReply;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::api_error::ApiError;
use crate::app::AppState;
use crate::ingest_tasks::IngestPermit;
use crate::middleware::{is_cross_origin, trace_of};

/// How long a body may take to arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// A request body of at most `limits.body_bytes`.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl FromRequest<AppState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let limit = SizeLimit { bytes: app.settings.body_bytes, setting: "limits.body_bytes" };
        read(request, app, limit).await.map(Self)
    }
}

/// The body of an ingest request, of at most `limits.ingest_body_bytes`, and the permit to ingest it. The
/// permit is taken before the body is read, so that no more large bodies are in memory than requests may
/// ingest.
pub(crate) struct DocumentsBody {
    pub(crate) bytes: Bytes,
    pub(crate) permit: IngestPermit,
}

impl FromRequest<AppState> for DocumentsBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let permit = app.ingest_tasks.try_acquire()?;
        let limit = SizeLimit { bytes: app.settings.ingest_body_bytes, setting: "limits.ingest_body_bytes" };
        Ok(Self { bytes: read(request, app, limit).await?, permit })
    }
}

/// The errors that reading any body can return.
pub(crate) fn errors() -> Vec<ApiError> {
    let too_large =
        too_large("the body is larger than a setting allows (limits.body_bytes, limits.ingest_body_bytes)");
    [cross_origin(), too_large, timed_out(), truncated()].map(ApiError::from).to_vec()
}

/// An upper bound in bytes, and the setting that it comes from.
struct SizeLimit {
    bytes: usize,
    setting: &'static str,
}

async fn read(request: Request, app: &AppState, limit: SizeLimit) -> Result<Bytes, ApiError> {
    let trace = trace_of(request.extensions());
    let fail = |reply: ErrorReply| Err(reply.into());
    if !is_json(&request) && is_cross_origin(request.headers(), &app.settings.allowed_origins) {
        return fail(cross_origin());
    }
    let SizeLimit { bytes, setting } = limit;
    match timeout(READ_TIMEOUT, Limited::new(request.into_body(), bytes).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            fail(too_large(format!("the body is larger than {bytes} bytes ({setting})")))
        }
        Ok(Err(error)) => {
            tracing::debug!(%trace, %error, "a request body was truncated");
            fail(truncated())
        }
        Err(_) => fail(timed_out()),
    }
}

fn is_json(request: &Request) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

fn truncated() -> ErrorReply {
    ErrorReply::new(
        400,
        "invalid_request",
        "the body was truncated: the connection ended before the body did",
    )
}

fn cross_origin() -> ErrorReply {
    let message = "a page of another origin must send its body as application/json";
    ErrorReply::new(415, "unsupported_media_type", message)
}

fn too_large(message: impl Into<String>) -> ErrorReply {
    ErrorReply::new(413, "body_too_large", message)
}

fn timed_out() -> ErrorReply {
    let message = format!("the body did not arrive within {} seconds", READ_TIMEOUT.as_secs());
    ErrorReply::new(408, "request_timeout", message)
}
