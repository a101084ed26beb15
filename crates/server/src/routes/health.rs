//! Health calls, for orchestrators and for people.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use dialects::health::{self, Overall};

use crate::refusal::json;
use crate::serve::App;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/health", get(all))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
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
    json(StatusCode::OK, br#"{"status":"live"}"#.to_vec())
}

/// New prompts are taken. The embedder and the index may still be getting ready, which stops nobody from
/// asking; the body tells.
async fn ready(State(app): State<App>) -> Response {
    if app.engine.is_stopping() {
        return json(StatusCode::SERVICE_UNAVAILABLE, br#"{"status":"stopping"}"#.to_vec());
    }
    let health = app.watch.look().await;
    let standings = app.engine.provider_standings();
    let kept = standings.into_iter().filter_map(|(name, standing)| Some((name, standing.kept?))).collect();
    json(StatusCode::OK, health::ready(&health.embedding, &health.index, &kept))
}
