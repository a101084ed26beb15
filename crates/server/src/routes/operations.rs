//! Calls for those who run the server.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialects::service::{self, Root};

use crate::metrics;
use crate::openapi::{Answer, Call, Routes};
use crate::refusal::json;
use crate::serve::App;

pub(crate) fn routes() -> Routes {
    Routes::of("Operations")
        .get(
            "/",
            root,
            Call::new("root", "Tells what this is").answers(200, Answer::json::<Root>("Where to go on.")),
        )
        .get(
            "/metrics",
            measured,
            Call::new("metrics", "Tells what was measured")
                .answers(200, Answer::text("text/plain", "Prometheus' text format.")),
        )
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
