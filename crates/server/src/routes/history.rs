//! The calls behind the pages: sessions, prompts, and every event of a prompt.

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

use super::generation::position;
use super::{InPath, LAST_EVENT_ID, named, query_value, text_header};
use crate::openapi::{Answer, Call, Routes, Stream, invalid, no_prompt, no_session, overloaded, storage};
use crate::refusal::{Refusal, json};
use crate::serve::App;
use crate::stream::respond;

/// A list of prompts is no longer than this; the newest are in it.
const MAX_PROMPTS: usize = 1_000;
const RECENT_PROMPTS: usize = 100;

pub(crate) fn routes() -> Routes {
    Routes::of("History")
        .get(
            "/api/sessions",
            sessions,
            Call::new("sessions", "Lists sessions, the newest first")
                .query("limit", limit_schema(), "How many.")
                .query(
                    "before",
                    schema!({"type": "string", "format": "uuid"}),
                    "The `next` of the page before.",
                )
                .answers(200, Answer::json::<SessionsReply<'_>>("A page of them."))
                .refuses([invalid(), storage()]),
        )
        .delete(
            "/api/sessions/{sessionId}",
            delete_session,
            Call::new("deleteSession", "Removes a session with everything that was said in it")
                .answers(204, Answer::empty("It is gone."))
                .refuses([no_session(), storage()]),
        )
        .get(
            "/api/sessions/{sessionId}/prompts",
            session_prompts,
            Call::new("sessionPrompts", "Lists the prompts of a session, in the order they were asked")
                .answers(200, Answer::json::<PromptsReply<'_>>("The newest 1,000 of them."))
                .refuses([no_session(), storage()]),
        )
        .get(
            "/api/prompts",
            prompts,
            Call::new("prompts", "Lists running and recent prompts, the newest first")
                .query("status", prompt_status(), "Only those that are so.")
                .answers(200, Answer::json::<PromptsReply<'_>>("The newest 100 of them."))
                .refuses([invalid(), storage()]),
        )
        .get(
            "/api/prompts/{promptId}/events",
            prompt_events,
            Call::new("promptEvents", "Reads every event of a prompt's log")
                .more("A prompt that still runs is read on live. `Last-Event-ID` wins over `after`.")
                .query("after", position(), "The position of the last event that the client has.")
                .header("Last-Event-ID", position(), "The same, as an EventSource sends it.")
                .answers(200, Stream::events::<EventWire<'_>>("The events behind that."))
                .answers(204, Answer::empty("The client has them all."))
                .refuses([invalid(), no_prompt(), overloaded(), storage()]),
        )
}

fn prompt_status() -> Value {
    let mut schema = schema_for!(PromptStatusWire);
    schema.remove("$schema");
    schema.to_value()
}

async fn sessions(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let (limit, before) = (query_value(query.as_deref(), "limit"), query_value(query.as_deref(), "before"));
    let page = history::decode_page(limit.as_deref(), before.as_deref())?;
    let sessions = app.engine.sessions(&Principal::local(), page.before, page.limit).await?;
    let standing = |session| (app.engine.status_of(&session).0, session);
    let sessions: Vec<_> =
        sessions.into_iter().map(standing).map(|(status, session)| (session, status)).collect();
    Ok(json(StatusCode::OK, history::sessions(&sessions, page.limit)))
}

async fn delete_session(State(app): State<App>, id: InPath) -> Result<StatusCode, Refusal> {
    let id: SessionId = named(id).ok_or(Rejection::SessionNotFound)?;
    app.engine.delete_session(&Principal::local(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The prompts of one session, in the order they were asked.
async fn session_prompts(State(app): State<App>, id: InPath) -> Result<Response, Refusal> {
    let who = Principal::local();
    let id: SessionId = named(id).ok_or(Rejection::SessionNotFound)?;
    app.engine.session(&who, id).await?;
    let which = PromptFilter { session: Some(id), status: None };
    let prompts = app.engine.prompts(&who, which, MAX_PROMPTS).await?;
    Ok(json(StatusCode::OK, history::prompts(prompts.iter().rev())))
}

/// Running and recent prompts, the newest first.
async fn prompts(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let status = query_value(query.as_deref(), "status");
    let which = PromptFilter { session: None, status: history::decode_status(status.as_deref())? };
    let prompts = app.engine.prompts(&Principal::local(), which, RECENT_PROMPTS).await?;
    Ok(json(StatusCode::OK, history::prompts(&prompts)))
}

async fn prompt_events(
    State(app): State<App>,
    id: InPath,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let id: PromptId = named(id).ok_or(Rejection::PromptNotFound)?;
    let after = query_value(query.as_deref(), "after");
    let after = generation::resume_position(text_header(&headers, LAST_EVENT_ID), after.as_deref())?;
    let reader = app.engine.observe(&Principal::local(), id).await?;
    let last = reader
        .ended_log()
        .and_then(|log| events::terminal_position(log.iter().flat_map(|batch| batch.iter())));
    if after.zip(last).is_some_and(|(after, last)| after >= last) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(respond(reader, EventEncoder::new(after), sse::CONTENT_TYPE))
}
