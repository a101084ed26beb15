//! The calls of the generation dialect.

use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialects::generation::wire::{
    CancelRequest, Delta, HealthReply, PromptReply, PromptRequest, SessionReply, SessionRequest,
    SessionStarted,
};
use dialects::generation::{self, DeltaEncoder, Encoding};
use domain::{MAX_KEY_CHARS, Principal, PromptId, Rejection, SessionId, TraceId};
use engine::Reader;
use serde_json::{Value, json};

use super::{InPath, LAST_EVENT_ID, named, query_value, text_header};
use crate::body::JsonBody;
use crate::openapi::{
    Answer, Call, Routes, Stream, in_flight, invalid, key_reused, no_prompt, no_session, no_usable_session,
    overloaded, stopping, storage,
};
use crate::refusal::{Refusal, json as reply};
use crate::serve::App;
use crate::stream::respond;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(crate) fn routes() -> Routes {
    Routes::of("Generation")
        .post(
            "/api/generation/session",
            start_session,
            Call::new("startSession", "Starts a session")
                .more("A session ends when nothing happened in it for a while (`sessions.idle_seconds`).")
                .may_take::<SessionRequest>()
                .answers(
                    201,
                    Answer::json::<SessionStarted>("The session has begun.")
                        .link("session", "session", &[("sessionId", "$response.body#/sessionId")])
                        .link("end", "endSession", &[("sessionId", "$response.body#/sessionId")])
                        .link_body("ask", "ask", &[("sessionId", "$response.body#/sessionId")])
                        .link("prompts", "sessionPrompts", &[("sessionId", "$response.body#/sessionId")]),
                )
                .refuses([invalid(), stopping(), storage()]),
        )
        .get(
            "/api/generation/session/{sessionId}",
            session,
            Call::new("session", "Tells how a session stands")
                .answers(200, Answer::json::<SessionReply<'_>>("The session."))
                .refuses([no_session(), storage()]),
        )
        .delete(
            "/api/generation/session/{sessionId}",
            end_session,
            Call::new("endSession", "Ends a session")
                .more("Its running prompt is cancelled. What was said in it stays.")
                .answers(204, Answer::empty("It has ended."))
                .refuses([no_session(), storage()]),
        )
        .post(
            "/api/generation/stream",
            stream,
            Call::new("ask", "Asks in a session, and streams the answer")
                .more(
                    "Without `Accept: text/event-stream` the answer is NDJSON. The stream begins before passages are \
                     looked for; what goes wrong later is told by its last delta, an `error`. A client that leaves \
                     has `streams.resume_seconds` to come back.",
                )
                .header(
                    "Idempotency-Key",
                    json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS}),
                    "Retry-safe key, as `idempotencyKey` in the body: the same request with the same key reads the \
                     same answer.",
                )
                .takes::<PromptRequest>()
                .answers(
                    200,
                    Stream::lines_or_events::<Delta<'_>>("The deltas: tokens, then one `done` or `error`.")
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
                .refuses([invalid(), no_usable_session(), in_flight(), key_reused()])
                .refuses([overloaded(), stopping(), storage()]),
        )
        .get(
            "/api/generation/prompts/{promptId}",
            prompt,
            Call::new("prompt", "Tells how a prompt stands")
                .answers(200, Answer::json::<PromptReply<'_>>("The prompt."))
                .refuses([no_prompt(), storage()]),
        )
        .get(
            "/api/generation/prompts/{promptId}/stream",
            resume,
            Call::new("resume", "Reads the deltas of a prompt, from the start or from where a client was")
                .more("A prompt that still runs is read on live. `Last-Event-ID` wins over `after`.")
                .query("after", position(), "The `seq` of the last delta that the client has.")
                .header("Last-Event-ID", position(), "The same, as an EventSource sends it.")
                .answers(200, Stream::lines_or_events::<Delta<'_>>("The deltas behind that."))
                .answers(204, Answer::empty("An EventSource has them all."))
                .refuses([invalid(), no_prompt(), overloaded(), storage()]),
        )
        .post(
            "/api/generation/cancel",
            cancel,
            Call::new("cancel", "Cancels a running prompt")
                .more("No token follows; the last delta is a `done` with `cancelled`.")
                .takes::<CancelRequest>()
                .answers(204, Answer::empty("It is cancelled."))
                .refuses([invalid(), no_prompt(), storage()]),
        )
        .get(
            "/api/generation/health",
            health,
            Call::new("generationHealth", "Tells how the providers are")
                .answers(200, Answer::json::<HealthReply<'_>>("How they are.")),
        )
}

/// Where a client was.
pub(super) fn position() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u64::MAX})
}

async fn start_session(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, Refusal> {
    let new = generation::decode_session(&body)?;
    let session = app.engine.start_session(&Principal::local(), new).await?;
    let (_, expires_at) = app.engine.status_of(&session);
    Ok(reply(StatusCode::CREATED, generation::session_started(&session, expires_at)))
}

async fn session(State(app): State<App>, id: InPath) -> Result<Response, Refusal> {
    let id: SessionId = named(id).ok_or(Rejection::SessionNotFound)?;
    let session = app.engine.session(&Principal::local(), id).await?;
    let (status, expires_at) = app.engine.status_of(&session);
    Ok(reply(StatusCode::OK, generation::session(&session, status, expires_at)))
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
    Ok(reply(StatusCode::OK, generation::prompt(&prompt)))
}

async fn cancel(State(app): State<App>, JsonBody(body): JsonBody) -> Result<StatusCode, Refusal> {
    let cancel = generation::decode_cancel(&body)?;
    let who = Principal::local();
    app.engine.cancel(&who, cancel.session, cancel.prompt, cancel.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn health(State(app): State<App>) -> Response {
    reply(StatusCode::OK, generation::health(&app.engine.provider_health().await))
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
