//! Answers by a running server, over the generation dialect.

use std::time::Duration;

use reqwest::Response;
use serde::Deserialize;
use serde_json::json;

use super::{AnswerStream, Ask, Backend};
use crate::commands::CommandError;
use crate::commands::server_client::{ServerClient, ServerError};

/// The timeout of calls that are not streams.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Remote {
    server: ServerClient,
}

pub(super) struct RemoteStream {
    server: ServerClient,
    session: String,
    prompt: String,
    response: Response,
}

impl Remote {
    /// The server at an address, which is not called yet.
    pub(super) async fn open(url: &str) -> Result<Self, CommandError> {
        Ok(Self { server: ServerClient::new(url)? })
    }
}

impl Backend for Remote {
    type Stream = RemoteStream;

    async fn start_session(&self) -> Result<String, CommandError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Started {
            session_id: String,
        }
        let request = self.server.post("/api/generation/session").timeout(TIMEOUT);
        let body = self.server.body(self.server.call(request).await?).await?;
        let started = serde_json::from_slice(&body);
        let Started { session_id } = started.map_err(|_| self.server.not_ours("started no session"))?;
        Ok(session_id)
    }

    async fn ask(&self, ask: &Ask, session: &str, question: &str) -> Result<RemoteStream, CommandError> {
        let body = ask.body(session, question).to_string();
        let request = self.server.post("/api/generation/stream").body(body);
        let response = self.server.call(request).await.map_err(|error| match error {
            ServerError::Refused { code, .. } if code == "session_not_found" => ask.no_such_session(session),
            other => other.into(),
        })?;
        let prompt = response.headers().get("x-prompt-id").and_then(|id| id.to_str().ok());
        let prompt = prompt.unwrap_or_default().to_owned();
        Ok(RemoteStream { server: self.server.clone(), session: session.to_owned(), prompt, response })
    }

    async fn close(self) {}
}

impl AnswerStream for RemoteStream {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, CommandError> {
        let chunk = self.response.chunk().await.map_err(|source| self.server.broke_off(source))?;
        Ok(chunk.map(Into::into))
    }

    async fn cancel(&self) -> Result<(), CommandError> {
        let body = json!({ "sessionId": self.session, "promptId": self.prompt }).to_string();
        self.server.call(self.server.post("/api/generation/cancel").body(body).timeout(TIMEOUT)).await?;
        Ok(())
    }
}
