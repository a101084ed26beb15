//! The calls of the staged dialect, but for its stream, which the chat dialect has too.

use std::future::poll_fn;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dialects::staged::wire::{Health, StreamingSession};
use dialects::{chat, staged};
use domain::Principal;
use futures::FutureExt;

use super::{InPath, in_path};
use crate::openapi::{Answer, Call, Routes, no_session, storage};
use crate::refusal::{Refusal, json};
use crate::serve::App;

pub(crate) fn routes() -> Routes {
    Routes::of("Chat")
        .get(
            "/chat/stream/health",
            health,
            Call::new("chatStreamHealth", "Tells whether streams are begun")
                .answers(200, Answer::json::<Health>("They are."))
                .answers(503, Answer::json::<Health>("They are not: the server is stopping.")),
        )
        .get(
            "/chat/stream/{session_id}",
            session,
            Call::new("streamingSession", "Tells how the running stream of a session stands")
                .answers(200, Answer::json::<StreamingSession<'_>>("The stream as it stands."))
                .refuses(chat::session_in_path(None).err())
                .refuses([staged::nothing_runs()])
                .refuses([no_session(), storage()]),
        )
}

async fn health(State(app): State<App>) -> Response {
    let takes_prompts = !app.engine.is_stopping();
    let status = if takes_prompts { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, staged::health(takes_prompts))
}

/// The stream that runs in a session, as its log has it now.
async fn session(State(app): State<App>, id: InPath) -> Result<Response, Refusal> {
    let who = Principal::local();
    let session = app.engine.session(&who, chat::session_in_path(in_path(&id))?).await?;
    let prompt = session.running.ok_or_else(staged::nothing_runs)?;
    let mut reader = app.engine.observe(&who, prompt).await?;
    let mut session = staged::Session::new();
    // A prompt that has just been claimed has its first batch in a moment.
    let mut next = poll_fn(|cx| reader.poll_next(cx)).await;
    while let Some(batch) = next {
        batch.iter().for_each(|event| session.take(event));
        next = poll_fn(|cx| reader.poll_next(cx)).now_or_never().flatten();
    }
    // It may have ended since the session was looked up.
    if !session.is_active() {
        return Err(staged::nothing_runs().into());
    }
    Ok(json(StatusCode::OK, session.reply()))
}
