//! How many requests an address may send, and what its answers say about that.

use std::time::Duration;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dialects::Rejected;

use crate::client::{client, place};
use crate::connections::Peer;
use crate::rate::Allowance;
use crate::refusal::Refusal;
use crate::serve::App;

pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(super) const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
pub(super) const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Counts a request, and tells with its answer what its client may still send. Those who watch over the server are not
/// counted, nor are browsers that ask whether they may ask.
pub(super) async fn counted(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(rate) = &app.rate else { return next.run(request).await };
    let client = place(client(peer.ip(), request.headers(), &app.settings.trusted_proxies));
    let is_watching = matches!(request.uri().path(), "/health/live" | "/health/ready" | "/metrics");
    let is_preflight = request.method() == Method::OPTIONS;
    let allowance = if is_watching || is_preflight { rate.look(client) } else { rate.take(client) };
    request.extensions_mut().insert(allowance);
    let mut response = next.run(request).await;
    response.headers_mut().extend([
        (RATE_LIMIT, HeaderValue::from(allowance.limit)),
        (RATE_REMAINING, HeaderValue::from(allowance.remaining)),
        (RATE_RESET, HeaderValue::from(seconds(allowance.full_in))),
    ]);
    response
}

/// No client sends more than its share. It is refused inside of what lets pages of other origins read why.
pub(super) async fn limited(request: Request, next: Next) -> Response {
    match request.extensions().get() {
        Some(Allowance { limit, wait: Some(wait), .. }) => {
            let message = format!(
                "this address has sent more than {limit} requests in a minute (limits.requests_per_minute): \
                 ask again in {} s",
                seconds(*wait)
            );
            Refusal::from(rate_limited(message, *wait)).into_response()
        }
        _ => next.run(request).await,
    }
}

pub(super) fn rate_limited(message: impl Into<String>, wait: Duration) -> Rejected {
    Rejected { retry_after: Some(wait), ..Rejected::new(429, "rate_limited", message) }
}

/// Whole seconds, none too few.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
