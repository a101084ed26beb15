//! The staged dialect: the state of a session's running stream. The stream itself is in `chat`, which shares
//! its path.

use std::future::poll_fn;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dialects::staged::wire::{HealthReply, StreamingSessionReply};
use dialects::{chat, staged};
use domain::Principal;
use futures::FutureExt;

use super::{PathId, json_response, path_text};
use crate::api_error::ApiError;
use crate::app::AppState;
use crate::openapi::{Operation, ResponseDoc, Routes, no_session, storage};

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::tagged("Chat");
    routes.get("/chat/stream/health", health, health_doc());
    routes.get("/chat/stream/{session_id}", session, session_doc());
    routes
}

fn health_doc() -> Operation {
    Operation::new("chatStreamHealth", "Checks whether new streams are accepted")
        .response(200, ResponseDoc::json::<HealthReply>("They are accepted."))
        .response(503, ResponseDoc::json::<HealthReply>("The server is stopping."))
}

async fn health(State(app): State<AppState>) -> Response {
    let takes_prompts = !app.engine.is_stopping();
    let status = if takes_prompts { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json_response(status, staged::health(takes_prompts))
}

fn session_doc() -> Operation {
    Operation::new("streamingSession", "Shows the running stream of a session")
        .response(200, ResponseDoc::json::<StreamingSessionReply<'_>>("The state of the stream."))
        .errors(chat::session_in_path(None).err())
        .errors([staged::no_running_stream()])
        .errors([no_session(), storage()])
}

/// The state of a session's running stream, folded from its log so far.
async fn session(State(app): State<AppState>, id: PathId) -> Result<Response, ApiError> {
    let who = Principal::local();
    let session = app.engine.session(&who, chat::session_in_path(path_text(&id))?).await?;
    let prompt = session.running.ok_or_else(staged::no_running_stream)?;
    let mut reader = app.engine.observe(&who, prompt).await?;
    let mut session = staged::StreamingSession::new();
    // The first batch of a prompt that was just claimed is still being written: wait for it.
    let mut next = poll_fn(|cx| reader.poll_next(cx)).await;
    while let Some(batch) = next {
        batch.iter().for_each(|event| session.push(event));
        next = poll_fn(|cx| reader.poll_next(cx)).now_or_never().flatten();
    }
    // The prompt may have ended since the session was read.
    if !session.is_active() {
        return Err(staged::no_running_stream().into());
    }
    Ok(json_response(StatusCode::OK, session.reply()))
}
