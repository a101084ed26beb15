//! The calls of the staged dialect, but for its stream, which the chat dialect has too.

use std::future::poll_fn;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use dialects::{chat, staged};
use domain::Principal;
use futures::FutureExt;

use super::{InPath, in_path};
use crate::refusal::{Refusal, json};
use crate::serve::App;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/chat/stream/health", get(health)).route("/chat/stream/{session}", get(session))
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
