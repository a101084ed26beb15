//! Trace ids, the access log, and the rendering of errors. The outermost layer: every response passes it.

use axum::extract::{Extension, Request, State};
use axum::http::{Extensions, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use domain::TraceId;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::api_error;
use crate::app::AppState;
use crate::client_address::client_address;
use crate::connections::Peer;
use crate::headers::{TRACE_ID, TRACEPARENT};
use crate::routes;

/// The trace id of a request: that of its `traceparent` header, or a random one.
pub(crate) fn trace_of(extensions: &Extensions) -> TraceId {
    extensions.get().copied().unwrap_or_else(TraceId::random)
}

pub(super) async fn trace(
    State(app): State<AppState>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let received_at = Instant::now();
    let client = client_address(peer.ip(), request.headers(), &app.settings.trusted_proxies);
    let traceparent = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok());
    let trace = traceparent.and_then(TraceId::from_traceparent).unwrap_or_else(TraceId::random);
    request.extensions_mut().insert(trace);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let mut response = api_error::render(response, routes::error_format_of(&path), trace);
    app.error_counts.count(&response);
    let status = response.status().as_u16();
    let milliseconds = u64::try_from(received_at.elapsed().as_millis()).unwrap_or(u64::MAX);
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
