//! How many requests an address may send, and what its answers say about that.

use std::time::Duration;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dialects::Rejected;

use crate::client::{client, place};
use crate::connections::Peer;
use crate::refusal::Refusal;
use crate::serve::App;

pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(super) const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
pub(super) const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// No client sends more than its share. Those who watch over the server are not counted.
pub(super) async fn limited(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let Some(rate) = &app.rate else { return next.run(request).await };
    let client = place(client(peer.ip(), request.headers(), &app.settings.trusted_proxies));
    let path = request.uri().path();
    let is_counted = !matches!(path, "/health/live" | "/health/ready" | "/metrics");
    let allowance = if is_counted { rate.take(client) } else { rate.look(client) };
    let mut response = match allowance.wait {
        Some(wait) => {
            let limit = allowance.limit;
            let message = format!(
                "this address has sent more than {limit} requests in a minute (limits.requests_per_minute): \
                 ask again in {} s",
                seconds(wait)
            );
            Refusal::from(rate_limited(message, wait)).into_response()
        }
        None => next.run(request).await,
    };
    response.headers_mut().extend([
        (RATE_LIMIT, HeaderValue::from(allowance.limit)),
        (RATE_REMAINING, HeaderValue::from(allowance.remaining)),
        (RATE_RESET, HeaderValue::from(seconds(allowance.full_in))),
    ]);
    response
}

pub(super) fn rate_limited(message: impl Into<String>, wait: Duration) -> Rejected {
    Rejected { retry_after: Some(wait), ..Rejected::new(429, "rate_limited", message) }
}

/// Whole seconds, none too few.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
