//! The history: `/api/sessions` and `/api/prompts`, with every event of a prompt's log.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use dialects::events::{self, EventEncoder, EventWire};
use dialects::generation::wire::PromptStatusWire;
use dialects::history::{PromptsReply, SessionsReply};
use dialects::{generation, history, limit_schema, sse};
use domain::{Principal, PromptFilter, PromptId, Rejection, SessionId};
use schemars::schema_for;
use serde_json::{Value, json as schema};

use super::generation::position_schema;
use super::{PathId, header_text, json_response, parse_id, query_value};
use crate::api_error::ApiError;
use crate::app::AppState;
use crate::headers::LAST_EVENT_ID;
use crate::log_stream::stream_log;
use crate::openapi::{
    Operation, ResponseDoc, Routes, StreamDoc, invalid, no_prompt, no_session, overloaded, storage,
};

/// Upper bound on the listed prompts of one session: the newest.
const MAX_PROMPTS: usize = 1_000;
/// Upper bound on the listed prompts of all sessions.
const RECENT_PROMPTS: usize = 100;

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::tagged("History");
    routes.get("/api/sessions", sessions, sessions_doc());
    routes.delete("/api/sessions/{sessionId}", delete_session, delete_session_doc());
    routes.get("/api/sessions/{sessionId}/prompts", session_prompts, session_prompts_doc());
    routes.get("/api/prompts", prompts, prompts_doc());
    routes.get("/api/prompts/{promptId}/events", prompt_events, prompt_events_doc());
    routes
}

fn status_schema() -> Value {
    let mut schema = schema_for!(PromptStatusWire);
    schema.remove("$schema");
    schema.to_value()
}

fn sessions_doc() -> Operation {
    Operation::new("sessions", "Lists sessions, newest first")
        .query("limit", limit_schema(), "Upper bound on the number of sessions.")
        .query("before", schema!({"type": "string", "format": "uuid"}), "The `next` of the previous page.")
        .response(200, ResponseDoc::json::<SessionsReply<'_>>("A page of sessions."))
        .errors([invalid(), storage()])
}

async fn sessions(State(app): State<AppState>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let (limit, before) = (query_value(query.as_deref(), "limit"), query_value(query.as_deref(), "before"));
    let page = history::decode_page(limit.as_deref(), before.as_deref())?;
    let sessions = app.engine.sessions(&Principal::local(), page.before, page.limit).await?;
    let with_status = |session| {
        let (status, _) = app.engine.status_of(&session);
        (session, status)
    };
    let sessions: Vec<_> = sessions.into_iter().map(with_status).collect();
    Ok(json_response(StatusCode::OK, history::sessions(&sessions, page.limit)))
}

fn delete_session_doc() -> Operation {
    Operation::new("deleteSession", "Deletes a session with its history")
        .response(204, ResponseDoc::empty("The session was deleted."))
        .errors([no_session(), storage()])
}

async fn delete_session(State(app): State<AppState>, id: PathId) -> Result<StatusCode, ApiError> {
    let id: SessionId = parse_id(id).ok_or(Rejection::SessionNotFound)?;
    app.engine.delete_session(&Principal::local(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn session_prompts_doc() -> Operation {
    Operation::new("sessionPrompts", "Lists the prompts of a session, oldest first")
        .response(200, ResponseDoc::json::<PromptsReply<'_>>("Its newest 1,000 prompts."))
        .errors([no_session(), storage()])
}

/// The prompts of one session, oldest first.
async fn session_prompts(State(app): State<AppState>, id: PathId) -> Result<Response, ApiError> {
    let who = Principal::local();
    let id: SessionId = parse_id(id).ok_or(Rejection::SessionNotFound)?;
    app.engine.session(&who, id).await?;
    let filter = PromptFilter { session: Some(id), status: None };
    let prompts = app.engine.prompts(&who, filter, MAX_PROMPTS).await?;
    Ok(json_response(StatusCode::OK, history::prompts(prompts.iter().rev())))
}

fn prompts_doc() -> Operation {
    Operation::new("prompts", "Lists running and recent prompts, newest first")
        .query("status", status_schema(), "Only prompts with this status.")
        .response(200, ResponseDoc::json::<PromptsReply<'_>>("The newest 100 prompts."))
        .errors([invalid(), storage()])
}

/// Running and recent prompts, newest first.
async fn prompts(State(app): State<AppState>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let status = query_value(query.as_deref(), "status");
    let filter = PromptFilter { session: None, status: history::decode_status(status.as_deref())? };
    let prompts = app.engine.prompts(&Principal::local(), filter, RECENT_PROMPTS).await?;
    Ok(json_response(StatusCode::OK, history::prompts(&prompts)))
}

fn prompt_events_doc() -> Operation {
    Operation::new("promptEvents", "Streams the events of a prompt's log")
        .description("A running prompt is followed live. `Last-Event-ID` takes precedence over `after`.")
        .query("after", position_schema(), "The position of the last event that the client has.")
        .header("Last-Event-ID", position_schema(), "The same, as an EventSource sends it.")
        .response(200, StreamDoc::events::<EventWire<'_>>("The events after that position."))
        .response(204, ResponseDoc::empty("The client has all events."))
        .errors([invalid(), no_prompt(), overloaded(), storage()])
}

async fn prompt_events(
    State(app): State<AppState>,
    id: PathId,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id: PromptId = parse_id(id).ok_or(Rejection::PromptNotFound)?;
    let after = query_value(query.as_deref(), "after");
    let after = generation::resume_position(header_text(&headers, LAST_EVENT_ID), after.as_deref())?;
    let reader = app.engine.observe(&Principal::local(), id).await?;
    let last = reader
        .ended_log()
        .and_then(|log| events::terminal_position(log.iter().flat_map(|batch| batch.iter())));
    if after.zip(last).is_some_and(|(after, last)| after >= last) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(stream_log(reader, EventEncoder::new(after), sse::CONTENT_TYPE))
}
