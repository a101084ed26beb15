//! Answers of a real server: whole, cancelled, and cut short by its death.

use std::sync::Arc;
use std::time::Duration;

use domain::{Failure, FailureKind, FinishReason, ModelEvent, ModelStream, Provider, Request, Usage};
use futures::StreamExt;
use providers::{FallbackProvider, HttpProviderSettings, OpenAiProvider};
use reqwest::Client;
use serde_json::{Value, json};

use super::LlamaServer;
use crate::fake_server::settings;

/// Any name: the server ignores it and echoes it in its answers.
const MODEL: &str = "smollm2";

fn provider(server: &LlamaServer) -> OpenAiProvider {
    let settings = settings(&format!("{}/v1", server.url));
    OpenAiProvider::new(HttpProviderSettings {
        model: Some(MODEL.to_owned()),
        context_window: 2048,
        ..settings
    })
    .unwrap()
}

fn request(question: &str, max_tokens: u32) -> Arc<Request> {
    let system = "You are a helpful assistant.".to_owned();
    Arc::new(Request { system, question: question.to_owned(), max_tokens, ..Request::default() })
}

/// Direct calls to the server.
impl LlamaServer {
    /// Its answer to a request that is not streamed.
    async fn whole_answer(&self, request: &Request) -> Value {
        let body = json!({
            "model": MODEL,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.question},
            ],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        });
        let call = client().post(format!("{}/v1/chat/completions", self.url)).body(body.to_string());
        let answer = call.send().await.unwrap().error_for_status().unwrap().bytes().await.unwrap();
        serde_json::from_slice(&answer).unwrap()
    }

    async fn get(&self, path: &str) -> String {
        let answer = client().get(format!("{}/{path}", self.url)).send().await.unwrap();
        answer.error_for_status().unwrap().text().await.unwrap()
    }

    /// Whether it generates an answer now.
    async fn is_writing(&self) -> bool {
        let slots: Value = serde_json::from_str(&self.get("slots").await).unwrap();
        slots[0]["is_processing"].as_bool().unwrap()
    }

    /// Tokens generated in all answers that have ended, completed or not.
    async fn written(&self) -> u64 {
        let metrics = self.get("metrics").await;
        let written = metrics.lines().find_map(|line| line.strip_prefix("llamacpp:tokens_predicted_total "));
        written.unwrap().parse().unwrap()
    }
}

fn client() -> Client {
    Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

/// Reads on until the answer has begun.
async fn begin(answer: &mut ModelStream) {
    while !matches!(answer.next().await.unwrap().unwrap(), ModelEvent::Text(_)) {}
}

fn texts(events: &[ModelEvent]) -> Vec<&str> {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(&**text),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn a_streamed_answer_is_the_servers_own() {
    let server = LlamaServer::start("chat");
    let provider = provider(&server);
    provider.health().await.unwrap();
    for (question, reason) in [
        ("Say hello.", FinishReason::Stop),
        ("Write こんにちは and three emoji.", FinishReason::Length),
        ("Write a Rust function that adds two numbers.", FinishReason::Length),
    ] {
        let request = request(question, 60);
        let events: Vec<_> = provider.stream(request.clone()).map(Result::unwrap).collect().await;
        let whole = server.whole_answer(&request).await;

        assert_eq!(events.first(), Some(&ModelEvent::Started(provider.model())));
        let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(texts(&events).concat(), text, "{question}");
        assert!(texts(&events).len() > 5, "it comes in pieces: {events:?}");
        let count = |key: &str| whole["usage"][key].as_u64();
        let usage =
            Usage { input: count("prompt_tokens"), output: count("completion_tokens"), cached: Some(0) };
        assert_eq!(events[events.len() - 2..], [ModelEvent::Usage(usage), ModelEvent::Finish(reason)]);
    }
}

#[tokio::test]
async fn a_cancelled_answer_is_not_generated_further() {
    let server = LlamaServer::start("chat");
    let provider = provider(&server);
    let long = request("Tell me a long story about a river.", 200);
    let whole = server.whole_answer(&long).await;
    assert_eq!(whole["usage"]["completion_tokens"], 200, "the model does not end it by itself");
    let before = server.written().await;

    let mut answer = provider.stream(long);
    begin(&mut answer).await;
    assert!(server.is_writing().await);
    drop(answer);
    // The server generates one answer at a time, so this one waits for the end of the other.
    let next: Vec<_> = provider.stream(request("Hi", 1)).map(Result::unwrap).collect().await;
    assert_eq!(texts(&next).len(), 1);
    let written = server.written().await - before;
    assert!(written < 100, "{written} tokens were generated after the client had disconnected");
}

#[tokio::test]
async fn a_server_that_dies_midway_is_a_failure_without_fallback() {
    let mut dying = LlamaServer::start("chat");
    let other = LlamaServer::start("chat");
    let members = [&dying, &other].map(|server| Arc::new(provider(server)) as Arc<dyn Provider>);
    let fallback = FallbackProvider::new(members.to_vec(), Duration::from_secs(60));
    let mut answer = fallback.stream(request("Tell me a long story about a river.", 200));
    begin(&mut answer).await;
    dying.kill();

    let mut rest: Vec<Result<ModelEvent, Failure>> = answer.collect().await;
    let failure = rest.pop().unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Died);
    assert!(failure.message.starts_with("the answer broke off: "), "{failure}");
    assert!(rest.iter().all(|event| matches!(event, Ok(ModelEvent::Text(_)))), "{rest:?}");
    assert_eq!(other.written().await, 0);

    // The next question falls back to the other server.
    let answer: Vec<_> = fallback.stream(request("Hi", 1)).map(Result::unwrap).collect().await;
    assert_eq!(texts(&answer).len(), 1);
    let failure = provider(&dying).stream(request("Hi", 1)).next().await.unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
}
