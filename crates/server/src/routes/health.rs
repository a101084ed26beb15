//! Health calls, for orchestrators and for people.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dialects::health::{self, OneWord, Overall, Ready, Report};

use crate::openapi::{Answer, Call, Routes};
use crate::refusal::json;
use crate::serve::App;

pub(crate) fn routes() -> Routes {
    Routes::of("Health")
        .get(
            "/health",
            all,
            Call::new("health", "Tells how every part is")
                .answers(200, Answer::json::<Report<'_>>("Questions are answered."))
                .answers(503, Answer::json::<Report<'_>>("They are not.")),
        )
        .get(
            "/health/live",
            live,
            Call::new("live", "Tells that the process works")
                .answers(200, Answer::json::<OneWord>("It works.")),
        )
        .get(
            "/health/ready",
            ready,
            Call::new("ready", "Tells whether new prompts are taken")
                .answers(200, Answer::json::<Ready<'_>>("They are."))
                .answers(503, Answer::json::<OneWord>("They are not: the server is stopping.")),
        )
}

/// How every part is.
async fn all(State(app): State<App>) -> Response {
    let (overall, parts) = app.watch.look_at_all(&app.engine).await;
    let status = match overall {
        Overall::Healthy | Overall::Degraded => StatusCode::OK,
        Overall::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
    };
    json(status, health::report(overall, &parts, app.engine.now()))
}

/// The process works.
async fn live() -> Response {
    json(StatusCode::OK, health::live())
}

/// New prompts are taken. The embedder, the index and the models may still be getting ready, which stops nobody
/// from asking; the body tells.
async fn ready(State(app): State<App>) -> Response {
    if app.engine.is_stopping() {
        return json(StatusCode::SERVICE_UNAVAILABLE, health::stopping());
    }
    let parts = app.watch.look_at_readiness(&app.engine).await;
    json(StatusCode::OK, health::ready(&parts, &app.engine.provider_statuses()))
}
