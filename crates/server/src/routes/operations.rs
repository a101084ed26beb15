//! The service itself: `/` says what it is, `/metrics` is for Prometheus.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialects::service::{self, Root};

use super::json_response;
use crate::app::AppState;
use crate::metrics;
use crate::openapi::{Operation, ResponseDoc, Routes};

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::tagged("Operations");
    routes.get("/", root, root_doc());
    routes.get("/metrics", metrics_page, metrics_page_doc());
    routes
}

fn root_doc() -> Operation {
    Operation::new("root", "Shows the service's name and version").response(
        200,
        ResponseDoc::json::<Root>("The service, with the paths of its documentation and health check."),
    )
}

async fn root() -> Response {
    json_response(StatusCode::OK, service::root(env!("CARGO_PKG_VERSION")))
}

fn metrics_page_doc() -> Operation {
    Operation::new("metrics", "Shows the metrics")
        .response(200, ResponseDoc::text("text/plain", "The text format of Prometheus."))
}

async fn metrics_page(State(app): State<AppState>) -> Response {
    let text = metrics::render(&app).await;
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}
