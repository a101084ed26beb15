//! The generation dialect: `/api/generation`.

use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialects::generation::wire::{
    CancelRequest, Delta, HealthReply, PromptReply, PromptRequest, SessionReply, SessionRequest,
    SessionStarted,
};
use dialects::generation::{self, DeltaEncoder, Encoding};
use domain::{MAX_KEY_CHARS, Principal, PromptId, Rejection, SessionId, TraceId};
use engine::Reader;
use serde_json::{Value, json};

use super::{PathId, header_text, json_response, parse_id, query_value};
use crate::api_error::ApiError;
use crate::app::AppState;
use crate::headers::{IDEMPOTENCY_KEY, LAST_EVENT_ID};
use crate::log_stream::stream_log;
use crate::openapi::{
    Operation, ResponseDoc, Routes, StreamDoc, in_flight, invalid, key_reused, no_prompt, no_session,
    no_usable_session, overloaded, stopping, storage,
};
use crate::request_body::JsonBody;

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::tagged("Generation");
    routes.post("/api/generation/session", start_session, start_session_doc());
    routes.get("/api/generation/session/{sessionId}", session, session_doc());
    routes.delete("/api/generation/session/{sessionId}", end_session, end_session_doc());
    routes.post("/api/generation/stream", stream, stream_doc());
    routes.get("/api/generation/prompts/{promptId}", prompt, prompt_doc());
    routes.get("/api/generation/prompts/{promptId}/stream", resume, resume_doc());
    routes.post("/api/generation/cancel", cancel, cancel_doc());
    routes.get("/api/generation/health", health, health_doc());
    routes
}

/// The schema of a position in a log.
pub(super) fn position_schema() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u64::MAX})
}

fn start_session_doc() -> Operation {
    Operation::new("startSession", "Starts a session")
        .description("A session expires after `sessions.idle_seconds` without activity.")
        .optional_body::<SessionRequest>()
        .response(
            201,
            ResponseDoc::json::<SessionStarted>("The session was started.")
                .link("session", "session", &[("sessionId", "$response.body#/sessionId")])
                .link("end", "endSession", &[("sessionId", "$response.body#/sessionId")])
                .link_body("ask", "ask", &[("sessionId", "$response.body#/sessionId")])
                .link("prompts", "sessionPrompts", &[("sessionId", "$response.body#/sessionId")]),
        )
        .errors([invalid(), stopping(), storage()])
}

async fn start_session(State(app): State<AppState>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let new = generation::decode_session(&body)?;
    let session = app.engine.start_session(&Principal::local(), new).await?;
    let (_, expires_at) = app.engine.status_of(&session);
    Ok(json_response(StatusCode::CREATED, generation::session_started(&session, expires_at)))
}

fn session_doc() -> Operation {
    Operation::new("session", "Shows a session")
        .response(200, ResponseDoc::json::<SessionReply<'_>>("The session."))
        .errors([no_session(), storage()])
}

async fn session(State(app): State<AppState>, id: PathId) -> Result<Response, ApiError> {
    let id: SessionId = parse_id(id).ok_or(Rejection::SessionNotFound)?;
    let session = app.engine.session(&Principal::local(), id).await?;
    let (status, expires_at) = app.engine.status_of(&session);
    Ok(json_response(StatusCode::OK, generation::session(&session, status, expires_at)))
}

fn end_session_doc() -> Operation {
    Operation::new("endSession", "Ends a session")
        .description("Its running prompt is cancelled. Its history stays.")
        .response(204, ResponseDoc::empty("The session has ended."))
        .errors([no_session(), storage()])
}

async fn end_session(State(app): State<AppState>, id: PathId) -> Result<StatusCode, ApiError> {
    let id: SessionId = parse_id(id).ok_or(Rejection::SessionNotFound)?;
    app.engine.end_session(&Principal::local(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn stream_doc() -> Operation {
    Operation::new("ask", "Asks in a session and streams the answer")
        .description(
            "Without `Accept: text/event-stream` the answer is NDJSON. The stream begins before \
             retrieval; a later failure is its last delta, an `error`. A client that disconnects can \
             resume the stream within `streams.resume_seconds`.",
        )
        .header(
            "Idempotency-Key",
            json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS}),
            "Idempotency key, as `idempotencyKey` in the body: the same request with the same key reads \
             the same answer.",
        )
        .body::<PromptRequest>()
        .response(
            200,
            StreamDoc::lines_or_events::<Delta<'_>>("The deltas: tokens, then one `done` or `error`.")
                .link("prompt", "prompt", &[("promptId", "$response.header.X-Prompt-Id")])
                .link("resume", "resume", &[("promptId", "$response.header.X-Prompt-Id")])
                .link("events", "promptEvents", &[("promptId", "$response.header.X-Prompt-Id")])
                .link_body(
                    "cancel",
                    "cancel",
                    &[
                        ("sessionId", "$response.header.X-Session-Id"),
                        ("promptId", "$response.header.X-Prompt-Id"),
                    ],
                ),
        )
        .errors([invalid(), no_usable_session(), in_flight(), key_reused()])
        .errors([overloaded(), stopping(), storage()])
}

async fn stream(
    State(app): State<AppState>,
    Extension(trace): Extension<TraceId>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let key = header_text(&headers, IDEMPOTENCY_KEY);
    let ask = generation::decode_prompt(&body, key, trace)?;
    let reader = app.engine.submit(&Principal::local(), ask).await?;
    Ok(deltas(reader, encoding(&headers), None))
}

fn resume_doc() -> Operation {
    Operation::new("resume", "Resumes the deltas of a prompt, from the start or after a position")
        .description("A running prompt is followed live. `Last-Event-ID` takes precedence over `after`.")
        .query("after", position_schema(), "The `seq` of the last delta that the client has.")
        .header("Last-Event-ID", position_schema(), "The same, as an EventSource sends it.")
        .response(200, StreamDoc::lines_or_events::<Delta<'_>>("The deltas after that position."))
        .response(204, ResponseDoc::empty("An EventSource has all deltas and should not reconnect."))
        .errors([invalid(), no_prompt(), overloaded(), storage()])
}

async fn resume(
    State(app): State<AppState>,
    id: PathId,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id: PromptId = parse_id(id).ok_or(Rejection::PromptNotFound)?;
    let after = query_value(query.as_deref(), "after");
    let last_event_id = header_text(&headers, LAST_EVENT_ID);
    let after = generation::resume_position(last_event_id, after.as_deref())?;
    let reader = app.engine.read(&Principal::local(), id).await?;
    Ok(deltas(reader, encoding(&headers), after))
}

fn prompt_doc() -> Operation {
    Operation::new("prompt", "Shows a prompt")
        .response(200, ResponseDoc::json::<PromptReply<'_>>("The prompt."))
        .errors([no_prompt(), storage()])
}

async fn prompt(State(app): State<AppState>, id: PathId) -> Result<Response, ApiError> {
    let id: PromptId = parse_id(id).ok_or(Rejection::PromptNotFound)?;
    let prompt = app.engine.prompt(&Principal::local(), id).await?;
    Ok(json_response(StatusCode::OK, generation::prompt(&prompt)))
}

fn cancel_doc() -> Operation {
    Operation::new("cancel", "Cancels a running prompt")
        .description("No token follows; the last delta is a `done` with `cancelled`.")
        .body::<CancelRequest>()
        .response(204, ResponseDoc::empty("The prompt is cancelled."))
        .errors([invalid(), no_prompt(), storage()])
}

async fn cancel(State(app): State<AppState>, JsonBody(body): JsonBody) -> Result<StatusCode, ApiError> {
    let cancel = generation::decode_cancel(&body)?;
    let who = Principal::local();
    app.engine.cancel(&who, cancel.session, cancel.prompt, cancel.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn health_doc() -> Operation {
    Operation::new("generationHealth", "Checks the providers")
        .response(200, ResponseDoc::json::<HealthReply<'_>>("The health of each provider."))
}

async fn health(State(app): State<AppState>) -> Response {
    json_response(StatusCode::OK, generation::health(&app.engine.provider_health().await))
}

fn encoding(headers: &HeaderMap) -> Encoding {
    Encoding::from_accept(header_text(headers, header::ACCEPT))
}

/// Streams the deltas after a position. An EventSource that has all of an ended prompt gets 204, since it
/// reconnects after any other response.
fn deltas(reader: Reader, encoding: Encoding, after: Option<u64>) -> Response {
    let has_all = |after| {
        let log = reader.ended_log().unwrap_or_default();
        !log.is_empty() && after >= generation::terminal_seq(log.iter().flat_map(|batch| batch.iter()))
    };
    if encoding == Encoding::Sse && after.is_some_and(has_all) {
        return StatusCode::NO_CONTENT.into_response();
    }
    stream_log(reader, DeltaEncoder::new(encoding, after), encoding.content_type())
}
