use std::time::Duration;

use domain::{FailureKind, FinishReason, ModelEvent, ModelId, Provider, Text, Usage};
use futures::StreamExt;
use providers::{HttpProviderSettings, OllamaProvider};

use crate::fake_server::{
    FakeServer, Reply, ask, begin_of_stream, dead_address, failure, question, response, settings, streamed,
    words,
};

const HI: &str = concat!(r#"{"message":{"content":"Hi"},"done":false}"#, "\n");
const END: &str = concat!(
    r#"{"message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":1}"#,
    "\n"
);

fn ollama(base_url: &str) -> OllamaProvider {
    OllamaProvider::new(settings(base_url)).unwrap()
}

#[tokio::test]
async fn an_answer_is_streamed() {
    let mut server = FakeServer::start(vec![streamed(&format!("{HI}{END}"))]).await;
    let events: Vec<_> = ask(&ollama(&server.url)).await.into_iter().map(Result::unwrap).collect();
    let model = ModelId { provider: "local".into(), model: "tiny".into() };
    let usage = Usage { input: Some(3), output: Some(1), cached: None };
    assert_eq!(
        events,
        [
            ModelEvent::Started(model),
            ModelEvent::Text(Text::from("Hi")),
            ModelEvent::Usage(usage),
            ModelEvent::Finish(FinishReason::Stop),
        ]
    );
    let request = server.request().await;
    assert!(request.head.starts_with("post /api/chat http/1.1"), "{}", request.head);
    assert!(request.head.contains("content-type: application/json"), "{}", request.head);
    assert!(!request.head.contains("authorization"), "{}", request.head);
    assert_eq!(request.json()["options"]["num_ctx"], 4096);
}

#[tokio::test]
async fn a_refused_connection_is_unavailable() {
    let address = dead_address().await;
    let failure = failure(&ollama(&address)).await;
    assert_eq!(failure.kind, FailureKind::Unavailable);
    let expected = format!("cannot connect to {address}: connection refused; is Ollama running?");
    assert_eq!(failure.message, expected);
}

#[tokio::test]
async fn a_missing_model_is_refused_with_advice() {
    let body = r#"{"error":"model 'tiny' not found"}"#;
    let server = FakeServer::start(vec![response("404 Not Found", "", body)]).await;
    let failure = failure(&ollama(&server.url)).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.contains("model 'tiny' not found"), "{failure}");
    assert!(failure.message.contains("ollama pull tiny"), "{failure}");
}

#[tokio::test]
async fn an_error_response_without_its_body_keeps_its_status() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 100\r\n\r\n";
    let server = FakeServer::start(vec![Reply::Open(format!("{head}{{\"error\":"))]).await;
    let failure = failure(&ollama(&server.url)).await;
    assert_eq!((failure.kind, failure.retry_after), (FailureKind::Unavailable, Some(Duration::from_secs(7))));
    assert!(failure.message.starts_with("answered 429 Too Many Requests"), "{failure}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_midway_is_a_failure() {
    let cut = begin_of_stream(HI);
    let closed = format!("{cut}0\r\n\r\n");
    for reply in [cut, closed] {
        let server = FakeServer::start(vec![Reply::Whole(reply)]).await;
        let mut events = ask(&ollama(&server.url)).await;
        let failure = events.pop().unwrap().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Died, "{failure}");
        assert!(failure.message.starts_with("the answer broke off: "), "{failure}");
        assert_eq!(events.pop().unwrap().unwrap(), ModelEvent::Text(Text::from("Hi")));
    }
}

#[tokio::test]
async fn dropping_the_stream_aborts_the_call() {
    let mut server =
        FakeServer::start(vec![Reply::Open(begin_of_stream(HI)), Reply::Open(String::new())]).await;
    let provider = ollama(&server.url);
    let mut answer = provider.stream(question());
    while !matches!(answer.next().await.unwrap().unwrap(), ModelEvent::Text(_)) {}
    drop(answer);
    server.closed().await;

    // The same before the server has sent anything.
    server.request().await;
    let mut answer = provider.stream(question());
    tokio::select! {
        event = answer.next() => panic!("{event:?}"),
        _ = server.request() => {}
    }
    drop(answer);
    server.closed().await;
}

#[tokio::test]
async fn a_server_is_healthy_when_it_has_the_model() {
    let missing = r#"{"error":"model 'tiny' not found"}"#;
    let mut server =
        FakeServer::start(vec![response("200 OK", "", "{}"), response("404 Not Found", "", missing)]).await;
    let provider = ollama(&server.url);
    assert_eq!(provider.health().await, Ok(()));
    let request = server.request().await;
    assert!(request.head.starts_with("post /api/show"));
    assert_eq!(request.json()["model"], "tiny");
    let failure = provider.health().await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.contains("ollama pull tiny"), "{failure}");
}

#[tokio::test]
async fn without_a_configured_model_no_request_is_sent() {
    let settings = HttpProviderSettings { model: None, ..settings(&dead_address().await) };
    let provider = OllamaProvider::new(settings).unwrap();
    let failure = failure(&provider).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.contains("WELLSPRING__PROVIDERS__LOCAL__MODEL"), "{failure}");
    assert_eq!(provider.health().await.unwrap_err(), failure);
}

#[tokio::test]
async fn requests_go_through_the_proxy() {
    let mut proxy = FakeServer::start(vec![streamed(&format!("{HI}{END}"))]).await;
    let settings =
        HttpProviderSettings { proxy: Some(proxy.url.as_str().into()), ..settings("http://model.test") };
    assert_eq!(words(&OllamaProvider::new(settings).unwrap()).await, "Hi");
    assert!(proxy.request().await.head.starts_with("post http://model.test/api/chat"));
}
