//! The chat completions API of OpenAI, which vLLM, llama.cpp, Gemini and many others speak too.

mod decoder;
mod repeats;
mod tool_calls;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use domain::{Failure, ModelId, ModelStream, Provider, Request};
use reqwest::{Response, StatusCode};
use serde::Serialize;

use crate::answer;
use crate::cl100k::count_tokens;
use crate::messages::{Message, messages, room};
use crate::model_server::{Advice, ModelServer};
use crate::refusal::Refusal;
use crate::settings::{HttpProvider, InvalidSettings};
use decoder::OpenAiDecoder;

/// What to do about failures of such a server.
pub(crate) const ADVICE: Advice = Advice {
    unreachable: "is the server running, and is base_url right?",
    not_found: "check base_url and model",
};

/// A provider that asks a server with OpenAI's API.
pub struct OpenAi {
    server: Arc<ModelServer>,
    accepted: Arc<Mutex<Parameters>>,
}

impl OpenAi {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// If the address, the key or the proxy cannot be used.
    pub fn new(settings: HttpProvider) -> Result<Self, InvalidSettings> {
        let server = ModelServer::new(settings, ADVICE)?;
        let is_openai = server.host() == Some("api.openai.com");
        let parameters = Parameters { max_tokens: !is_openai, temperature: true };
        Ok(Self { server: Arc::new(server), accepted: Arc::new(Mutex::new(parameters)) })
    }
}

#[async_trait]
impl Provider for OpenAi {
    fn model(&self) -> ModelId {
        self.server.model()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let (server, accepted) = (self.server.clone(), self.accepted.clone());
        answer::stream::<OpenAiDecoder>(self.server.clone(), request.clone(), async move {
            chat(&server, &accepted, &request).await
        })
    }

    fn room(&self, request: &Request) -> Option<usize> {
        room(request, self.server.window)
    }

    fn count_tokens(&self, text: &str) -> usize {
        count_tokens(text)
    }

    async fn health(&self) -> Result<(), Failure> {
        self.server.in_time(is_reachable(&self.server)).await
    }
}

/// Which parameters the model takes.
#[derive(Clone, Copy)]
struct Parameters {
    max_tokens: bool,
    temperature: bool,
}

impl Parameters {
    /// The parameters without the one that was refused; none if that is not what the refusal is about.
    fn without_refused(self, refusal: &Refusal) -> Option<Self> {
        let is_unsupported =
            matches!(refusal.problem.code.as_deref(), Some("unsupported_parameter" | "unsupported_value"));
        if refusal.status != StatusCode::BAD_REQUEST || !is_unsupported {
            return None;
        }
        match refusal.problem.param.as_deref() {
            Some("max_tokens") if self.max_tokens => Some(Self { max_tokens: false, ..self }),
            Some("temperature") if self.temperature => Some(Self { temperature: false, ..self }),
            _ => None,
        }
    }
}

/// Sends the request, and again without a parameter that the model does not take. What was refused once is
/// not sent with later requests.
async fn chat(
    server: &ModelServer,
    accepted: &Mutex<Parameters>,
    request: &Request,
) -> Result<Response, Failure> {
    let mut parameters = *lock(accepted);
    loop {
        let body = body(server.named_model()?, server.window, parameters, request)?;
        let response = server.post(&["chat", "completions"], body).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let refusal = Refusal::read(response).await;
        let fewer = parameters.without_refused(&refusal).ok_or_else(|| server.refused(&refusal))?;
        parameters = fewer;
        *lock(accepted) = fewer;
    }
}

fn lock(parameters: &Mutex<Parameters>) -> MutexGuard<'_, Parameters> {
    parameters.lock().expect("nothing can panic while parameters are copied")
}

/// Every such server lists its models: where it does not, `base_url` is wrong.
pub(crate) async fn is_reachable(server: &ModelServer) -> Result<(), Failure> {
    server.named_model()?;
    let response = server.get(&["models"]).await?;
    match response.status() {
        status if status.is_success() => Ok(()),
        StatusCode::METHOD_NOT_ALLOWED => Ok(()),
        _ => Err(server.refused(&Refusal::read(response).await)),
    }
}

fn body(model: &str, window: usize, parameters: Parameters, request: &Request) -> Result<Vec<u8>, Failure> {
    let limit = request.answer_tokens(window);
    let wire = ChatWire {
        model,
        messages: messages(request, window)?,
        stream: true,
        stream_options: StreamOptionsWire { include_usage: true },
        max_tokens: parameters.max_tokens.then_some(limit),
        max_completion_tokens: (!parameters.max_tokens).then_some(limit),
        temperature: parameters.temperature.then_some(request.temperature),
    };
    Ok(serde_json::to_vec(&wire).expect("strings and numbers can be written as JSON"))
}

#[derive(Serialize)]
struct ChatWire<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    stream_options: StreamOptionsWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

#[derive(Serialize)]
struct StreamOptionsWire {
    include_usage: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sent(parameters: Parameters) -> Value {
        let request =
            Request { question: "Why?".to_owned(), max_tokens: 100, temperature: 0.25, ..Request::default() };
        serde_json::from_slice(&body("gpt", 8192, parameters, &request).unwrap()).unwrap()
    }

    #[test]
    fn the_request_is_what_openai_expects() {
        assert_eq!(
            sent(Parameters { max_tokens: true, temperature: true }),
            json!({
                "model": "gpt",
                "messages": [{"role": "user", "content": "Why?"}],
                "stream": true,
                "stream_options": {"include_usage": true},
                "max_tokens": 100,
                "temperature": 0.25,
            })
        );
    }

    #[test]
    fn parameters_that_were_refused_are_left_out_or_renamed() {
        let sent = sent(Parameters { max_tokens: false, temperature: false });
        assert_eq!(sent["max_completion_tokens"], 100);
        assert_eq!((sent.get("max_tokens"), sent.get("temperature")), (None, None));
    }
}
