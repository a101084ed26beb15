//! Answers of a running server, over the generation dialect.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::json;

use super::super::calls::{self, Refusal};
use super::{Answer, Ask, Place};

/// How long a call may take that is no stream.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A server.
pub(super) struct Through {
    url: String,
    client: Client,
}

/// An answer that a server streams.
pub(super) struct StreamedAnswer {
    url: String,
    client: Client,
    session: String,
    prompt: String,
    response: Response,
}

impl Through {
    /// The server at an address, which is not called yet.
    pub(super) async fn open(url: &str) -> Result<Self, String> {
        Ok(Self { url: url.to_owned(), client: calls::client(url)? })
    }
}

impl Place for Through {
    type Answer = StreamedAnswer;

    async fn start_session(&self) -> Result<String, String> {
        start_session(&self.url, &self.client).await
    }

    async fn ask(&self, ask: &Ask, session: &str, question: &str) -> Result<StreamedAnswer, String> {
        let (url, client) = (self.url.clone(), self.client.clone());
        let body = ask.body(session, question).to_string();
        let call = client.post(format!("{url}/api/generation/stream")).body(body);
        let response = send(&url, call).await.map_err(|refusal| match refusal.code.as_str() {
            "session_not_found" => ask.no_such_session(session),
            _ => refusal.message,
        })?;
        let prompt = response.headers().get("x-prompt-id").and_then(|id| id.to_str().ok());
        let prompt = prompt.unwrap_or_default().to_owned();
        Ok(StreamedAnswer { url, client, session: session.to_owned(), prompt, response })
    }

    async fn close(self) {}
}

impl Answer for StreamedAnswer {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self.response.chunk().await {
            Ok(chunk) => Ok(chunk.map(Into::into)),
            Err(_) => Err(format!("the server at {} broke off in the middle of the answer", self.url)),
        }
    }

    async fn cancel(&self) -> Result<(), String> {
        let body = json!({ "sessionId": self.session, "promptId": self.prompt });
        let call = self.client.post(format!("{}/api/generation/cancel", self.url)).body(body.to_string());
        send(&self.url, call.timeout(LONGEST_WAIT)).await.map_err(|refusal| refusal.message)?;
        Ok(())
    }
}

async fn start_session(url: &str, client: &Client) -> Result<String, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Started {
        session_id: String,
    }
    let call = client.post(format!("{url}/api/generation/session")).timeout(LONGEST_WAIT);
    let response = send(url, call).await.map_err(|refusal| refusal.message)?;
    let body = response.bytes().await.map_err(|error| calls::unanswered(url, &error))?;
    let started: Started = serde_json::from_slice(&body)
        .map_err(|_| format!("the server at {url} started no session: is it Wellspring's address?"))?;
    Ok(started.session_id)
}

async fn send(url: &str, call: RequestBuilder) -> Result<Response, Refusal> {
    match call.send().await {
        Ok(response) => calls::accepted(url, response).await,
        Err(error) => Err(Refusal { code: String::new(), message: calls::unanswered(url, &error) }),
    }
}
