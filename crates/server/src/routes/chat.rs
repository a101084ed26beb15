//! The calls of the chat dialect, and the stream that it shares with the staged one.

use std::future::poll_fn;

use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dialects::chat::wire::{ChatReply, ChatRequest, Conversation};
use dialects::{chat, chat_stream, limit_schema, sse};
use domain::{Principal, TraceId};

use super::{InPath, in_path, query_value};
use crate::body::JsonBody;
use crate::openapi::{
    Answer, Call, Routes, Stream, in_flight, invalid, no_session, no_usable_session, overloaded, stopping,
    storage,
};
use crate::refusal::{Refusal, json};
use crate::serve::App;
use crate::stream::{names, respond};

pub(crate) fn routes() -> Routes {
    Routes::of("Chat")
        .post(
            "/chat",
            answer,
            Call::new("chat", "Asks, and answers when the answer is whole")
                .more("A client that leaves cancels it. Without a `session_id` a fresh session is made.")
                .takes::<ChatRequest>()
                .answers(
                    200,
                    Answer::json::<ChatReply<'_>>("The answer and its sources.").naming().link(
                        "conversation",
                        "conversation",
                        &[("session_id", "$response.header.X-Session-Id")],
                    ),
                )
                .refuses([invalid(), in_flight(), overloaded(), stopping(), storage()])
                .refuses(chat::failures()),
        )
        .post(
            "/chat/stream",
            stream,
            Call::new("chatStream", "Asks, and streams the answer")
                .more(
                    "With a `query` the stream has chunks, then the sources, then the end; with a `message` it has \
                     every stage on the way to the answer as an event, and the session must exist. Every event is one \
                     `data` line. What goes wrong after the stream has begun is told by its last event. A client that \
                     leaves cancels it.",
                )
                .takes::<chat_stream::Request>()
                .answers(
                    200,
                    Stream::bare_events::<chat_stream::Told<'_>>("The events.")
                        .link("conversation", "conversation", &[("session_id", "$response.header.X-Session-Id")])
                        .link("session", "streamingSession", &[("session_id", "$response.header.X-Session-Id")]),
                )
                .refuses([invalid(), no_usable_session(), in_flight(), overloaded(), stopping(), storage()]),
        )
        .get(
            "/conversations/{session_id}",
            conversation,
            Call::new("conversation", "Tells what was said in a session")
                .query("limit", limit_schema(), "How many messages: the newest ones.")
                .answers(200, Answer::json::<Conversation<'_>>("Messages, the oldest first."))
                .refuses(chat::session_in_path(None).err())
                .refuses([invalid(), no_session(), storage()]),
        )
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
