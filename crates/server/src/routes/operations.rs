//! Calls for those who run the server.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use dialects::service;

use crate::metrics;
use crate::refusal::json;
use crate::serve::App;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/", get(root)).route("/metrics", get(measured))
}

/// What this is, and where to go on.
async fn root() -> Response {
    json(StatusCode::OK, service::root(env!("CARGO_PKG_VERSION")))
}

/// What was measured, as Prometheus reads it.
async fn measured(State(app): State<App>) -> Response {
    let text = metrics::text(&app).await;
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}
