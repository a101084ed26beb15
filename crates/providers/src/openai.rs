//! The provider of OpenAI's chat completions API, which vLLM, llama.cpp, Gemini and many others implement too.

mod decoder;
mod duplicates;
mod tool_calls;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use domain::{Failure, ModelId, ModelStream, Provider, Request};
use reqwest::{Response, StatusCode};
use serde::Serialize;

use crate::cl100k::count_tokens;
use crate::http::{Advice, ErrorResponse, ModelServer, response_stream};
use crate::messages::{MessageWire, messages, room};
use crate::settings::{HttpProviderSettings, InvalidSettings};
use decoder::OpenAiDecoder;

/// Advice for failures of a server with OpenAI's API.
pub(crate) const ADVICE: Advice = Advice {
    unreachable: "is the server running, and is base_url right?",
    not_found: "check base_url and model",
};

/// A provider that calls a server with OpenAI's API.
pub struct OpenAiProvider {
    server: Arc<ModelServer>,
    accepted: Arc<Mutex<AcceptedParameters>>,
}

impl OpenAiProvider {
    /// Prepares the client; the first call connects.
    ///
    /// # Errors
    /// If the address, the key or the proxy is invalid.
    pub fn new(settings: HttpProviderSettings) -> Result<Self, InvalidSettings> {
        let server = ModelServer::new(settings, ADVICE)?;
        let is_openai = server.host() == Some("api.openai.com");
        let parameters = AcceptedParameters { max_tokens: !is_openai, temperature: true };
        Ok(Self { server: Arc::new(server), accepted: Arc::new(Mutex::new(parameters)) })
    }
}

#[async_trait]
impl Provider for OpenAiProvider {
    fn model(&self) -> ModelId {
        self.server.model()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let (server, accepted) = (self.server.clone(), self.accepted.clone());
        response_stream::<OpenAiDecoder>(self.server.clone(), request.clone(), async move {
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
        self.server.check_in_time(is_reachable(&self.server)).await
    }
}

/// The parameters that the model accepts. Without `max_tokens`, `max_completion_tokens` is sent instead.
#[derive(Clone, Copy)]
struct AcceptedParameters {
    max_tokens: bool,
    temperature: bool,
}

impl AcceptedParameters {
    /// The parameters without the one that the response rejects; none if it is about something else.
    fn without_rejected(self, response: &ErrorResponse) -> Option<Self> {
        let is_unsupported =
            matches!(response.body.code.as_deref(), Some("unsupported_parameter" | "unsupported_value"));
        if response.status != StatusCode::BAD_REQUEST || !is_unsupported {
            return None;
        }
        match response.body.param.as_deref() {
            Some("max_tokens") if self.max_tokens => Some(Self { max_tokens: false, ..self }),
            Some("temperature") if self.temperature => Some(Self { temperature: false, ..self }),
            _ => None,
        }
    }
}

/// Sends the request, and again without each parameter that the model rejects. Later requests leave these out too.
async fn chat(
    server: &ModelServer,
    accepted: &Mutex<AcceptedParameters>,
    request: &Request,
) -> Result<Response, Failure> {
    let mut parameters = *lock(accepted);
    loop {
        let body = body(server.named_model()?, server.window, parameters, request)?;
        let response = server.post(&["chat", "completions"], body).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let rejected = ErrorResponse::read(response).await;
        let fewer = parameters.without_rejected(&rejected).ok_or_else(|| server.failure_of(&rejected))?;
        parameters = fewer;
        *lock(accepted) = fewer;
    }
}

fn lock(parameters: &Mutex<AcceptedParameters>) -> MutexGuard<'_, AcceptedParameters> {
    parameters.lock().expect("nothing can panic while parameters are copied")
}

/// Fails unless the server lists its models: every server of this API does, so otherwise `base_url` is wrong.
pub(crate) async fn is_reachable(server: &ModelServer) -> Result<(), Failure> {
    server.named_model()?;
    let response = server.get(&["models"]).await?;
    match response.status() {
        status if status.is_success() => Ok(()),
        StatusCode::METHOD_NOT_ALLOWED => Ok(()),
        _ => Err(server.failure_of(&ErrorResponse::read(response).await)),
    }
}

fn body(
    model: &str,
    window: usize,
    parameters: AcceptedParameters,
    request: &Request,
) -> Result<Vec<u8>, Failure> {
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
    messages: Vec<MessageWire<'a>>,
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

    fn sent(parameters: AcceptedParameters) -> Value {
        let request =
            Request { question: "Why?".to_owned(), max_tokens: 100, temperature: 0.25, ..Request::default() };
        serde_json::from_slice(&body("gpt", 8192, parameters, &request).unwrap()).unwrap()
    }

    #[test]
    fn a_request_has_the_shape_that_openai_expects() {
        assert_eq!(
            sent(AcceptedParameters { max_tokens: true, temperature: true }),
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
    fn rejected_parameters_are_left_out_or_renamed() {
        let sent = sent(AcceptedParameters { max_tokens: false, temperature: false });
        assert_eq!(sent["max_completion_tokens"], 100);
        assert_eq!((sent.get("max_tokens"), sent.get("temperature")), (None, None));
    }
}
