//! Request bodies: bounded, and read as JSON whatever their content type says, unless a page of another
//! origin sent them.

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use dialects::Rejected;
use domain::TraceId;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::door::{self, trace_of};
use crate::ingests::Place;
use crate::refusal::Refusal;
use crate::serve::App;

/// How long a body may take to come.
const LONGEST_READ: Duration = Duration::from_secs(300);

/// The bytes of a request's body.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl FromRequest<App> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let limit = Limit { bytes: app.settings.body_bytes, setting: "limits.body_bytes" };
        read(request, app, limit).await.map(Self)
    }
}

/// A body that brings documents, and the place they are taken in at. The place comes first: large bodies are
/// held by no more requests than may take documents in.
pub(crate) struct DocumentsBody {
    pub(crate) bytes: Bytes,
    pub(crate) place: Place,
}

impl FromRequest<App> for DocumentsBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let place = app.ingests.enter()?;
        let limit = Limit { bytes: app.settings.ingest_body_bytes, setting: "limits.ingest_body_bytes" };
        Ok(Self { bytes: read(request, app, limit).await?, place })
    }
}

/// Why any body may be refused.
pub(crate) fn refusals() -> Vec<Refusal> {
    let too_large =
        too_large("the body is larger than a setting allows (limits.body_bytes, limits.ingest_body_bytes)");
    [foreign(), too_large, too_slow(), broken_off()].map(Refusal::from).to_vec()
}

/// How large a body may be, and which setting says so.
struct Limit {
    bytes: usize,
    setting: &'static str,
}

async fn read(request: Request, app: &App, limit: Limit) -> Result<Bytes, Refusal> {
    let trace = trace_of(request.extensions());
    let refuse = |rejected: Rejected| Err(rejected.into());
    if !is_json(&request) && door::is_foreign(request.headers(), &app.settings.allowed_origins) {
        return refuse(foreign());
    }
    let Limit { bytes, setting } = limit;
    match timeout(LONGEST_READ, Limited::new(request.into_body(), bytes).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            refuse(too_large(format!("the body is larger than {bytes} bytes ({setting})")))
        }
        Ok(Err(error)) => refuse(unreadable(trace, &*error)),
        Err(_) => refuse(too_slow()),
    }
}

fn is_json(request: &Request) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

fn unreadable(trace: TraceId, error: &(dyn std::error::Error + Send + Sync)) -> Rejected {
    tracing::debug!(%trace, %error, "a body broke off");
    broken_off()
}

fn broken_off() -> Rejected {
    Rejected::new(400, "invalid_request", "the body broke off before its end")
}

fn foreign() -> Rejected {
    let message = "a page of another origin must send its body as application/json";
    Rejected::new(415, "unsupported_media_type", message)
}

fn too_large(message: impl Into<String>) -> Rejected {
    Rejected::new(413, "body_too_large", message)
}

fn too_slow() -> Rejected {
    let message = format!("the body did not come whole within {} seconds", LONGEST_READ.as_secs());
    Rejected::new(408, "request_timeout", message)
}
