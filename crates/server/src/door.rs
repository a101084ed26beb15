//! The rules of the door, for every route: a trace id on everything, no more requests of an address than it may send,
//! loopback host names on a loopback address, other origins only if allowed.

mod hosts;
mod limited;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{Extensions, HeaderName, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use dialects::Rejected;
use domain::TraceId;
use futures::FutureExt;
use tokio::time::Instant;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tracing::{Instrument, debug, error_span, info};

use crate::client::client;
use crate::connections::Peer;
use crate::refusal::{self, Refusal};
use crate::routes;
use crate::serve::App;
pub(crate) use hosts::is_foreign;
use hosts::{misdirected, only_loopback_names};
use limited::{RATE_LIMIT, RATE_REMAINING, RATE_RESET, counted, limited, rate_limited};

pub(crate) const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
pub(crate) const PROMPT_ID: HeaderName = HeaderName::from_static("x-prompt-id");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// Puts the rules around all routes.
pub(crate) fn guard(routes: Router<App>, app: &App, loopback_only: bool) -> Router<App> {
    let mut routes = routes.layer(from_fn(unbroken));
    if loopback_only {
        routes = routes.layer(from_fn(only_loopback_names));
    }
    routes = routes.layer(from_fn(limited)).layer(cors(&app.settings.allowed_origins));
    if app.rate.is_some() {
        routes = routes.layer(from_fn_with_state(app.clone(), counted));
    }
    routes.layer(from_fn_with_state(app.clone(), traced))
}

/// Why any request may be refused.
pub(crate) fn refusals() -> Vec<Refusal> {
    let rejected = [
        broken(),
        misdirected("a server on a loopback address answers to loopback names only"),
        rate_limited(
            "this address has sent more requests in a minute than it may (limits.requests_per_minute)",
            Duration::from_secs(1),
        ),
    ];
    rejected.map(Refusal::from).to_vec()
}

/// The trace id that the door gave to a request.
pub(crate) fn trace_of(extensions: &Extensions) -> TraceId {
    extensions.get().copied().unwrap_or_else(TraceId::random)
}

async fn traced(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let came = Instant::now();
    let client = client(peer.ip(), request.headers(), &app.settings.trusted_proxies);
    let given = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let trace = given.and_then(TraceId::from_traceparent).unwrap_or_else(TraceId::random);
    request.extensions_mut().insert(trace);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let mut response = refusal::tell(response, routes::words(&path), trace);
    app.refused.count(&response);
    let status = response.status().as_u16();
    let milliseconds = u64::try_from(came.elapsed().as_millis()).unwrap_or(u64::MAX);
    if path.starts_with("/health") || path == "/metrics" {
        debug!(%trace, %client, %method, path, status, milliseconds, "answered");
    } else {
        info!(%trace, %client, %method, path, status, milliseconds, "answered");
    }
    response
        .headers_mut()
        .extend(HeaderValue::try_from(trace.to_string()).ok().map(|trace| (TRACE_ID, trace)));
    response
}

/// A handler that panics is a response, too. What is logged meanwhile, as a panic is, has the trace id.
async fn unbroken(request: Request, next: Next) -> Response {
    let span = error_span!("request", trace = %trace_of(request.extensions()));
    AssertUnwindSafe(next.run(request).instrument(span))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Refusal::from(broken()).into_response())
}

fn broken() -> Rejected {
    Rejected::new(500, "internal_error", "something is broken on our side; the log has this trace id")
}

fn cors(allowed_origins: &[String]) -> CorsLayer {
    let origins = if allowed_origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(allowed_origins.iter().filter_map(|origin| HeaderValue::try_from(origin).ok()))
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            PROMPT_ID,
            SESSION_ID,
            TRACE_ID,
            RATE_LIMIT,
            RATE_REMAINING,
            RATE_RESET,
            header::RETRY_AFTER,
        ])
}
