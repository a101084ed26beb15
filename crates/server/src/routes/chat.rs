//! The calls of the chat dialect, and the stream that it shares with the staged one.

use std::future::poll_fn;

use axum::Router;
use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use dialects::{chat, chat_stream, sse};
use domain::{Principal, TraceId};

use super::{InPath, in_path, query_value};
use crate::body::JsonBody;
use crate::refusal::{Refusal, json};
use crate::serve::App;
use crate::stream::{names, respond};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/chat", post(answer))
        .route("/chat/stream", post(stream))
        .route("/conversations/{session}", get(conversation))
}

/// Reads the log to its end. A client that leaves drops the reader, which cancels the prompt.
async fn answer(
    State(app): State<App>,
    Extension(trace): Extension<TraceId>,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let ask = chat::decode(&body, app.engine.new_session_id(), trace)?;
    let mut reader = app.engine.submit(&Principal::local(), ask).await?;
    let mut answer = chat::Answer::new();
    while let Some(batch) = poll_fn(|cx| reader.poll_next(cx)).await {
        batch.iter().for_each(|event| answer.take(event));
    }
    let response = match answer.finish() {
        Ok(reply) => json(StatusCode::OK, reply),
        Err(rejected) => Refusal::from(rejected).into_response(),
    };
    Ok((names(&reader), response).into_response())
}

async fn stream(
    State(app): State<App>,
    Extension(trace): Extension<TraceId>,
    JsonBody(body): JsonBody,
) -> Result<Response, Refusal> {
    let (ask, encoder) = chat_stream::decode(&body, app.engine.new_session_id(), trace)?;
    let reader = app.engine.submit(&Principal::local(), ask).await?;
    Ok(respond(reader, encoder, sse::CONTENT_TYPE))
}

async fn conversation(
    State(app): State<App>,
    id: InPath,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let session = chat::session_in_path(in_path(&id))?;
    let limit = chat::decode_limit(query_value(query.as_deref(), "limit").as_deref())?;
    let exchanges = app.engine.conversation(&Principal::local(), session, chat::exchanges(limit)).await?;
    Ok(json(StatusCode::OK, chat::conversation(session, &exchanges, limit)))
}
