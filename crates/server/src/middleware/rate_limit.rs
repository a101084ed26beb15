//! The rate limit: how many requests a client address may send in a minute, and the headers that say what is
//! left.

mod limiter;

use std::time::Duration;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dialects::ErrorReply;

use crate::api_error::ApiError;
use crate::app::AppState;
use crate::client_address::{client_address, rate_limit_key};
use crate::connections::Peer;
use crate::headers::{RATE_LIMIT, RATE_REMAINING, RATE_RESET};
use limiter::Allowance;
pub(crate) use limiter::RateLimiter;

/// Counts a request and puts on its response what its client may still send. Health checks, scrapes of
/// `/metrics` and CORS preflights are not counted.
pub(super) async fn count(
    State(app): State<AppState>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(limiter) = &app.rate_limiter else { return next.run(request).await };
    let client = rate_limit_key(client_address(peer.ip(), request.headers(), &app.settings.trusted_proxies));
    let is_monitoring = matches!(request.uri().path(), "/health/live" | "/health/ready" | "/metrics");
    let is_preflight = request.method() == Method::OPTIONS;
    let allowance = if is_monitoring || is_preflight { limiter.peek(client) } else { limiter.take(client) };
    request.extensions_mut().insert(allowance);
    let mut response = next.run(request).await;
    response.headers_mut().extend([
        (RATE_LIMIT, HeaderValue::from(allowance.limit)),
        (RATE_REMAINING, HeaderValue::from(allowance.remaining)),
        (RATE_RESET, HeaderValue::from(seconds(allowance.full_in))),
    ]);
    response
}

/// Refuses a request that exceeds the limit.
pub(super) async fn enforce(request: Request, next: Next) -> Response {
    match request.extensions().get() {
        Some(Allowance { limit, wait: Some(wait), .. }) => {
            let message = format!(
                "this address has sent more than {limit} requests in a minute (limits.requests_per_minute): \
                 ask again in {} s",
                seconds(*wait)
            );
            ApiError::from(rate_limited(message, *wait)).into_response()
        }
        _ => next.run(request).await,
    }
}

pub(super) fn rate_limited(message: impl Into<String>, wait: Duration) -> ErrorReply {
    ErrorReply { retry_after: Some(wait), ..ErrorReply::new(429, "rate_limited", message) }
}

/// Whole seconds, rounded up.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
