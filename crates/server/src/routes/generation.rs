//! The calls of the generation dialect.

use axum::Router;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use dialects::generation::{self, DeltaEncoder, Encoding};
use domain::{Principal, PromptId, Rejection, SessionId, TraceId};
use engine::Reader;

use super::{InPath, LAST_EVENT_ID, named, query_value, text_header};
use crate::body::JsonBody;
use crate::refusal::{Refusal, json};
use crate::serve::App;
use crate::stream::respond;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/api/generation/session", post(start_session))
        .route("/api/generation/session/{session}", get(session).delete(end_session))
        .route("/api/generation/stream", post(stream))
        .route("/api/generation/prompts/{prompt}", get(prompt))
        .route("/api/generation/prompts/{prompt}/stream", get(resume))
        .route("/api/generation/cancel", post(cancel))
        .route("/api/generation/health", get(health))
}

async fn start_session(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, Refusal> {
    let new = generation::decode_session(&body)?;
    let session = app.engine.start_session(&Principal::local(), new).await?;
    let (_, expires_at) = app.engine.standing(&session);
    Ok(json(StatusCode::CREATED, generation::session_started(&session, expires_at)))
}

async fn session(State(app): State<App>, id: InPath) -> Result<Response, Refusal> {
    let id: SessionId = named(id).ok_or(Rejection::SessionNotFound)?;
    let session = app.engine.session(&Principal::local(), id).await?;
    let (status, expires_at) = app.engine.standing(&session);
    Ok(json(StatusCode::OK, generation::session(&session, status, expires_at)))
}

async fn end_session(State(app): State<App>, id: InPath) -> Result<StatusCode, Refusal> {
    let id: SessionId = named(id).ok_or(Rejection::SessionNotFound)?;
    app.engine.end_session(&Principal::local(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn stream(
    State(app): State<App>,
    Extension(trace): Extension<TraceId>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let key = text_header(&headers, IDEMPOTENCY_KEY);
    let ask = generation::decode_prompt(&body, key, trace)?;
    let reader = app.engine.submit(&Principal::local(), ask).await?;
    Ok(deltas(reader, encoding(&headers), None))
}

async fn resume(
    State(app): State<App>,
    id: InPath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let id: PromptId = named(id).ok_or(Rejection::PromptNotFound)?;
    let after = query_value(query.as_deref(), "after");
    let last_event_id = text_header(&headers, LAST_EVENT_ID);
    let after = generation::resume_position(last_event_id, after.as_deref())?;
    let reader = app.engine.read(&Principal::local(), id).await?;
    Ok(deltas(reader, encoding(&headers), after))
}

async fn prompt(State(app): State<App>, id: InPath) -> Result<Response, Refusal> {
    let id: PromptId = named(id).ok_or(Rejection::PromptNotFound)?;
    let prompt = app.engine.prompt(&Principal::local(), id).await?;
    Ok(json(StatusCode::OK, generation::prompt(&prompt)))
}

async fn cancel(State(app): State<App>, JsonBody(body): JsonBody) -> Result<StatusCode, Refusal> {
    let cancel = generation::decode_cancel(&body)?;
    let who = Principal::local();
    app.engine.cancel(&who, cancel.session, cancel.prompt, cancel.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn health(State(app): State<App>) -> Response {
    json(StatusCode::OK, generation::health(&app.engine.provider_health().await))
}

fn encoding(headers: &HeaderMap) -> Encoding {
    Encoding::from_accept(text_header(headers, header::ACCEPT))
}

/// The deltas behind `after`. An EventSource that has them all is told so by 204, or it would ask for ever.
fn deltas(reader: Reader, encoding: Encoding, after: Option<u64>) -> Response {
    let has_all = |after| {
        let log = reader.ended_log().unwrap_or_default();
        !log.is_empty() && after >= generation::terminal_seq(log.iter().flat_map(|batch| batch.iter()))
    };
    if encoding == Encoding::Sse && after.is_some_and(has_all) {
        return StatusCode::NO_CONTENT.into_response();
    }
    respond(reader, DeltaEncoder::new(encoding, after), encoding.content_type())
}
