//! Ollama's own API: `/api/chat`, one JSON object a line.

mod decoder;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Failure, ModelId, ModelStream, Provider, Request};
use reqwest::Response;
use serde::Serialize;

use crate::answer;
use crate::cl100k::count_tokens;
use crate::messages::{Message, messages, room};
use crate::model_server::{Advice, ModelServer};
use crate::refusal::Refusal;
use crate::settings::{HttpProvider, InvalidSettings};
use decoder::OllamaDecoder;

/// What to do about Ollama's failures.
pub(crate) const ADVICE: Advice = Advice {
    unreachable: "is Ollama running?",
    not_found: "check base_url, or run `ollama pull MODEL` where Ollama runs",
};

/// A provider that asks an Ollama server.
pub struct Ollama {
    server: Arc<ModelServer>,
}

impl Ollama {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// If the address, the key or the proxy cannot be used.
    pub fn new(settings: HttpProvider) -> Result<Self, InvalidSettings> {
        Ok(Self { server: Arc::new(ModelServer::new(settings, ADVICE)?) })
    }
}

#[async_trait]
impl Provider for Ollama {
    fn model(&self) -> ModelId {
        self.server.model()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let server = self.server.clone();
        answer::stream::<OllamaDecoder>(self.server.clone(), request.clone(), async move {
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
        self.server.in_time(has_model(&self.server)).await
    }
}

async fn chat(server: &ModelServer, request: &Request) -> Result<Response, Failure> {
    let body = body(server.named_model()?, server.window, request)?;
    accepted(server, server.post(&["api", "chat"], body).await?).await
}

/// Whether the server has the model.
pub(crate) async fn has_model(server: &ModelServer) -> Result<(), Failure> {
    let model = server.named_model()?;
    let body = serde_json::to_vec(&ShowWire { model }).expect("strings can be written as JSON");
    accepted(server, server.post(&["api", "show"], body).await?).await.map(drop)
}

#[derive(Serialize)]
struct ShowWire<'a> {
    model: &'a str,
}

async fn accepted(server: &ModelServer, response: Response) -> Result<Response, Failure> {
    if response.status().is_success() {
        return Ok(response);
    }
    Err(server.refused(&Refusal::read(response).await))
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
    messages: Vec<Message<'a>>,
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
    fn the_request_is_what_ollama_expects() {
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
