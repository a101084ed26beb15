//! Health checks: `/health` for people and dashboards, `/health/live` and `/health/ready` for orchestrators.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dialects::health::{self, HealthReport, OverallHealth, ReadyReply, StatusReply};

use super::json_response;
use crate::app::AppState;
use crate::openapi::{Operation, ResponseDoc, Routes};

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::tagged("Health");
    routes.get("/health", all, all_doc());
    routes.get("/health/live", live, live_doc());
    routes.get("/health/ready", ready, ready_doc());
    routes
}

fn all_doc() -> Operation {
    Operation::new("health", "Checks every dependency")
        .response(200, ResponseDoc::json::<HealthReport<'_>>("Prompts are answered."))
        .response(503, ResponseDoc::json::<HealthReport<'_>>("Prompts are not answered."))
}

async fn all(State(app): State<AppState>) -> Response {
    let (overall, parts) = app.health_checks.check_all(&app.engine).await;
    let status = match overall {
        OverallHealth::Healthy | OverallHealth::Degraded => StatusCode::OK,
        OverallHealth::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
    };
    json_response(status, health::report(overall, &parts, app.engine.now()))
}

fn live_doc() -> Operation {
    Operation::new("live", "Checks that the process is alive")
        .response(200, ResponseDoc::json::<StatusReply>("It is alive."))
}

async fn live() -> Response {
    json_response(StatusCode::OK, health::live())
}

fn ready_doc() -> Operation {
    Operation::new("ready", "Checks whether new prompts are accepted")
        .response(200, ResponseDoc::json::<ReadyReply<'_>>("They are accepted."))
        .response(503, ResponseDoc::json::<StatusReply>("The server is stopping."))
}

/// The server is ready once it accepts prompts. The embedder, the index and the models may become ready
/// later; the body shows their state.
async fn ready(State(app): State<AppState>) -> Response {
    if app.engine.is_stopping() {
        return json_response(StatusCode::SERVICE_UNAVAILABLE, health::stopping());
    }
    let parts = app.health_checks.check_readiness(&app.engine).await;
    json_response(StatusCode::OK, health::ready(&parts, &app.engine.provider_statuses()))
}
