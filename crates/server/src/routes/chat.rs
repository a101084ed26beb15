//! The chat dialect: `/chat`, `/conversations`, and `/chat/stream`, which it shares with the staged dialect.

use std::future::poll_fn;

use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dialects::chat::wire::{ChatReply, ChatRequest, Conversation};
use dialects::{chat, chat_stream, limit_schema, sse};
use domain::{Principal, TraceId};

use super::{PathId, json_response, path_text, query_value};
use crate::api_error::ApiError;
use crate::app::AppState;
use crate::log_stream::{prompt_headers, stream_log};
use crate::openapi::{
    Operation, ResponseDoc, Routes, StreamDoc, in_flight, invalid, no_session, no_usable_session, overloaded,
    stopping, storage,
};
use crate::request_body::JsonBody;

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::tagged("Chat");
    routes.post("/chat", answer, answer_doc());
    routes.post("/chat/stream", stream, stream_doc());
    routes.get("/conversations/{session_id}", conversation, conversation_doc());
    routes
}

fn answer_doc() -> Operation {
    Operation::new("chat", "Asks and returns the complete answer")
        .description(
            "A client that disconnects cancels the prompt. Without a `session_id` a new session is started.",
        )
        .body::<ChatRequest>()
        .response(
            200,
            ResponseDoc::json::<ChatReply<'_>>("The answer and its sources.").prompt_headers().link(
                "conversation",
                "conversation",
                &[("session_id", "$response.header.X-Session-Id")],
            ),
        )
        .errors([invalid(), in_flight(), overloaded(), stopping(), storage()])
        .errors(chat::late_errors())
}

/// Reads the log to its end. When the client disconnects, this future and its reader are dropped, which
/// cancels the prompt.
async fn answer(
    State(app): State<AppState>,
    Extension(trace): Extension<TraceId>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let ask = chat::decode(&body, app.engine.new_session_id(), trace)?;
    let mut reader = app.engine.submit(&Principal::local(), ask).await?;
    let mut answer = chat::AnswerBuilder::new();
    while let Some(batch) = poll_fn(|cx| reader.poll_next(cx)).await {
        batch.iter().for_each(|event| answer.push(event));
    }
    let response = match answer.finish() {
        Ok(reply) => json_response(StatusCode::OK, reply),
        Err(rejected) => ApiError::from(rejected).into_response(),
    };
    Ok((prompt_headers(&reader), response).into_response())
}

fn stream_doc() -> Operation {
    Operation::new("chatStream", "Asks and streams the answer")
        .description(
            "With a `query` the stream has chunks, then the sources, then the end; with a `message` it \
             has an event for every stage of the answer, and the session must exist. Every event is one \
             `data` line. A failure after the stream has begun is its last event. A client that \
             disconnects cancels the prompt.",
        )
        .body::<chat_stream::ChatStreamRequest>()
        .response(
            200,
            StreamDoc::data_only_events::<chat_stream::ChatStreamEvent<'_>>("The events.")
                .link("conversation", "conversation", &[("session_id", "$response.header.X-Session-Id")])
                .link("session", "streamingSession", &[("session_id", "$response.header.X-Session-Id")]),
        )
        .errors([invalid(), no_usable_session(), in_flight(), overloaded(), stopping(), storage()])
}

async fn stream(
    State(app): State<AppState>,
    Extension(trace): Extension<TraceId>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let (ask, encoder) = chat_stream::decode(&body, app.engine.new_session_id(), trace)?;
    let reader = app.engine.submit(&Principal::local(), ask).await?;
    Ok(stream_log(reader, encoder, sse::CONTENT_TYPE))
}

fn conversation_doc() -> Operation {
    Operation::new("conversation", "Lists the messages of a session")
        .query("limit", limit_schema(), "Upper bound on the number of messages; the newest are returned.")
        .response(200, ResponseDoc::json::<Conversation<'_>>("The messages, oldest first."))
        .errors(chat::session_in_path(None).err())
        .errors([invalid(), no_session(), storage()])
}

async fn conversation(
    State(app): State<AppState>,
    id: PathId,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let session = chat::session_in_path(path_text(&id))?;
    let limit = chat::decode_limit(query_value(query.as_deref(), "limit").as_deref())?;
    let exchanges = app.engine.conversation(&Principal::local(), session, chat::exchanges(limit)).await?;
    Ok(json_response(StatusCode::OK, chat::conversation(session, &exchanges, limit)))
}
