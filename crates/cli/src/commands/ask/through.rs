//! An answer of a running server, over the generation dialect.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::json;

use super::super::calls::{self, Refusal};
use super::{Answer, Ask};

/// How long a call may take that is no stream.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// An answer that a server streams.
pub(super) struct Through {
    url: String,
    client: Client,
    session: String,
    prompt: String,
    response: Response,
}

impl Through {
    /// Asks the server at an address, in a new session unless one is named.
    pub(super) async fn ask(url: &str, ask: &Ask) -> Result<Self, String> {
        let client = calls::client(url)?;
        let session = match &ask.session {
            Some(session) => session.clone(),
            None => start_session(url, &client).await?,
        };
        let call = client.post(format!("{url}/api/generation/stream")).body(ask.body(&session).to_string());
        let response = send(url, call).await.map_err(|refusal| match refusal.code.as_str() {
            "session_not_found" => ask.no_such_session(),
            _ => refusal.message,
        })?;
        let prompt = response.headers().get("x-prompt-id").and_then(|id| id.to_str().ok());
        let prompt = prompt.unwrap_or_default().to_owned();
        Ok(Self { url: url.to_owned(), client, session, prompt, response })
    }
}

impl Answer for Through {
    fn session(&self) -> String {
        self.session.clone()
    }

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

    async fn close(self) {}
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
