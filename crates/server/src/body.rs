//! Request bodies: bounded, and read as JSON whatever their content type says, unless a page of another
//! origin sent them.

use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use dialects::generation::Rejected;
use domain::TraceId;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::door::{self, trace_of};
use crate::refusal::Refusal;
use crate::serve::App;

/// The bytes of a request's body.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl FromRequest<App> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let trace = trace_of(request.extensions());
        let refuse = |rejected| Err(Refusal::new(trace, rejected));
        if !is_json(&request) && door::is_foreign(request.headers(), &app.settings.allowed_origins) {
            return refuse(Rejected::new(
                415,
                "unsupported_media_type",
                "a page of another origin must send its body as application/json",
            ));
        }
        let limit = app.settings.body_bytes;
        match Limited::new(request.into_body(), limit).collect().await {
            Ok(body) => Ok(Self(body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => refuse(Rejected::new(
                413,
                "body_too_large",
                format!("the body is larger than {limit} bytes (limits.body_bytes)"),
            )),
            Err(error) => refuse(unreadable(trace, &*error)),
        }
    }
}

fn is_json(request: &Request) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

fn unreadable(trace: TraceId, error: &(dyn std::error::Error + Send + Sync)) -> Rejected {
    tracing::debug!(%trace, %error, "a body broke off");
    Rejected::new(400, "invalid_request", "the body broke off before its end")
}
