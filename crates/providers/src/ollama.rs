//! The provider of Ollama's own API: `/api/chat`, streamed as NDJSON.

mod decoder;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Failure, ModelId, ModelStream, Provider, Request};
use reqwest::Response;
use serde::Serialize;

use crate::cl100k::count_tokens;
use crate::http::{Advice, ErrorResponse, ModelServer, response_stream};
use crate::messages::{MessageWire, messages, room};
use crate::settings::{HttpProviderSettings, InvalidSettings};
use decoder::OllamaDecoder;

/// Advice for failures of an Ollama server.
pub(crate) const ADVICE: Advice = Advice {
    unreachable: "is Ollama running?",
    not_found: "check base_url, or run `ollama pull MODEL` where Ollama runs",
};

/// A provider that calls an Ollama server.
pub struct OllamaProvider {
    server: Arc<ModelServer>,
}

impl OllamaProvider {
    /// Prepares the client; the first call connects.
    ///
    /// # Errors
    /// If the address, the key or the proxy is invalid.
    pub fn new(settings: HttpProviderSettings) -> Result<Self, InvalidSettings> {
        Ok(Self { server: Arc::new(ModelServer::new(settings, ADVICE)?) })
    }
}

#[async_trait]
impl Provider for OllamaProvider {
    fn model(&self) -> ModelId {
        self.server.model()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let server = self.server.clone();
        response_stream::<OllamaDecoder>(self.server.clone(), request.clone(), async move {
            chat(&server, &request).await
        })
    }

    fn room(&self, request: &Request) -> Option<usize> {
        room(request, self.server.window)
    }

    fn count_tokens(&self, text: &str) -> usize {
        count_tokens(text)
    }

    async fn health(&self) -> Result<(), Failure> {
        self.server.check_in_time(has_model(&self.server)).await
    }
}

async fn chat(server: &ModelServer, request: &Request) -> Result<Response, Failure> {
    let body = body(server.named_model()?, server.window, request)?;
    check_status(server, server.post(&["api", "chat"], body).await?).await
}

/// Fails unless the server has the model.
pub(crate) async fn has_model(server: &ModelServer) -> Result<(), Failure> {
    let model = server.named_model()?;
    let body = serde_json::to_vec(&ShowWire { model }).expect("strings can be written as JSON");
    check_status(server, server.post(&["api", "show"], body).await?).await.map(drop)
}

#[derive(Serialize)]
struct ShowWire<'a> {
    model: &'a str,
}

async fn check_status(server: &ModelServer, response: Response) -> Result<Response, Failure> {
    if response.status().is_success() {
        return Ok(response);
    }
    Err(server.failure_of(&ErrorResponse::read(response).await))
}

fn body(model: &str, window: usize, request: &Request) -> Result<Vec<u8>, Failure> {
    let wire = ChatWire {
        model,
        messages: messages(request, window)?,
        stream: true,
        options: OptionsWire {
            num_ctx: window,
            num_predict: request.answer_tokens(window),
            temperature: request.temperature,
        },
    };
    Ok(serde_json::to_vec(&wire).expect("strings and numbers can be written as JSON"))
}

#[derive(Serialize)]
struct ChatWire<'a> {
    model: &'a str,
    messages: Vec<MessageWire<'a>>,
    stream: bool,
    options: OptionsWire,
}

#[derive(Serialize)]
struct OptionsWire {
    num_ctx: usize,
    num_predict: u32,
    temperature: f32,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_request_has_the_shape_that_ollama_expects() {
        let request = Request {
            system: "Be brief.".to_owned(),
            question: "Why?".to_owned(),
            max_tokens: 100,
            temperature: 0.5,
            ..Request::default()
        };
        let sent: Value = serde_json::from_slice(&body("llama3.2", 8192, &request).unwrap()).unwrap();
        assert_eq!(
            sent,
            json!({
                "model": "llama3.2",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Why?"},
                ],
                "stream": true,
                "options": {"num_ctx": 8192, "num_predict": 100, "temperature": 0.5},
            })
        );
    }
}
