use std::time::Duration;

use domain::{FailureKind, Provider};
use providers::{HttpProviderSettings, OpenAiProvider, Secret};

use crate::fake_server::{
    FakeServer, Reply, begin_of_stream, dead_address, failure, response, settings, streamed, words,
};

const ANSWER: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n"
);

fn openai(server: &FakeServer) -> OpenAiProvider {
    OpenAiProvider::new(settings(&format!("{}/v1", server.url))).unwrap()
}

fn openai_with_key(server: &FakeServer) -> OpenAiProvider {
    let settings = HttpProviderSettings { api_key: Some(Secret::from("sk-Secret")), ..settings(&server.url) };
    OpenAiProvider::new(settings).unwrap()
}

fn unsupported(param: &str, code: &str) -> String {
    format!(r#"{{"error":{{"message":"Unsupported: '{param}'","param":"{param}","code":"{code}"}}}}"#)
}

#[tokio::test]
async fn an_answer_is_streamed() {
    let mut server = FakeServer::start(vec![streamed(ANSWER)]).await;
    assert_eq!(words(&openai(&server)).await, "Hi");
    let request = server.request().await;
    assert!(request.head.starts_with("post /v1/chat/completions http/1.1"), "{}", request.head);
    assert!(!request.head.contains("authorization"), "{}", request.head);
    assert_eq!(request.json()["model"], "tiny");
}

#[tokio::test]
async fn the_next_request_reuses_the_connection() {
    let answer = || [begin_of_stream(ANSWER), "0\r\n\r\n".to_owned()];
    let server = FakeServer::start(vec![Reply::Kept(vec![answer(), answer(), answer()])]).await;
    let provider = openai(&server);
    for _ in 0..3 {
        let words = tokio::time::timeout(Duration::from_secs(10), words(&provider)).await;
        assert_eq!(words.expect("no second connection is ever answered"), "Hi");
    }
}

#[tokio::test]
async fn an_answer_ends_before_its_response_does() {
    let server = FakeServer::start(vec![Reply::Open(begin_of_stream(ANSWER))]).await;
    assert_eq!(words(&openai(&server)).await, "Hi");
}

#[tokio::test]
async fn the_key_is_sent_and_masked_in_messages() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-Secret"}}"#;
    let mut server = FakeServer::start(vec![response("401 Unauthorized", "", body)]).await;
    let failure = failure(&openai_with_key(&server)).await;
    assert!(server.request().await.head.contains("authorization: bearer sk-secret"));
    assert_eq!(failure.kind, FailureKind::Refused);
    let expected = "answered 401 Unauthorized: Incorrect API key provided: ***; check the key in api_key_env";
    assert_eq!(failure.message, expected);
}

#[tokio::test]
async fn a_key_in_an_error_event_is_masked() {
    let server = FakeServer::start(vec![streamed("data: {\"error\":\"sk-Secret expired\"}\n\n")]).await;
    let events = crate::fake_server::ask(&openai_with_key(&server)).await;
    let failure = events.last().unwrap().as_ref().unwrap_err();
    assert_eq!(failure.message, "reported an error: *** expired");
}

#[tokio::test]
async fn the_retry_after_of_a_busy_server_is_passed_on() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let server = FakeServer::start(vec![response(status, "retry-after: 7\r\n", "busy")]).await;
        let failure = failure(&openai(&server)).await;
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(failure.message, format!("answered {status}: busy"));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let reply = response("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", "");
    let server = FakeServer::start(vec![reply]).await;
    let failure = failure(&openai(&server)).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.contains("set base_url"), "{failure}");
}

#[tokio::test]
async fn a_long_error_message_is_cut() {
    let server = FakeServer::start(vec![response("400 Bad Request", "", &"no ".repeat(100_000))]).await;
    let failure = failure(&openai(&server)).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.len() < 400, "{}", failure.message.len());
}

#[tokio::test]
async fn a_request_larger_than_the_window_is_too_long() {
    let body = r#"{"error":{"message":"Too many tokens","code":"context_length_exceeded"}}"#;
    let server = FakeServer::start(vec![response("400 Bad Request", "", body)]).await;
    assert_eq!(failure(&openai(&server)).await.kind, FailureKind::TooLong);
}

#[tokio::test]
async fn parameters_that_the_model_rejects_are_left_out() {
    let mut server = FakeServer::start(vec![
        response("400 Bad Request", "", &unsupported("max_tokens", "unsupported_parameter")),
        response("400 Bad Request", "", &unsupported("temperature", "unsupported_value")),
        streamed(ANSWER),
        streamed(ANSWER),
    ])
    .await;
    let provider = openai(&server);
    assert_eq!(words(&provider).await, "Hi");
    let first = server.request().await.json();
    assert_eq!((&first["max_tokens"], &first["temperature"]), (&64.into(), &0.0.into()));
    let second = server.request().await.json();
    assert_eq!((second.get("max_tokens"), &second["max_completion_tokens"]), (None, &64.into()));
    assert!(second.get("temperature").is_some());
    assert_eq!(server.request().await.json().get("temperature"), None);

    // Later requests leave it out too.
    assert_eq!(words(&provider).await, "Hi");
    assert_eq!(server.request().await.json().get("temperature"), None);
}

#[tokio::test]
async fn a_parameter_is_left_out_once_and_only_if_it_is_unsupported() {
    let refused = || response("400 Bad Request", "", &unsupported("temperature", "unsupported_value"));
    let server = FakeServer::start(vec![refused(), refused()]).await;
    assert_eq!(failure(&openai(&server)).await.kind, FailureKind::Refused);

    let wrong = response("400 Bad Request", "", &unsupported("max_tokens", "invalid_value"));
    let server = FakeServer::start(vec![wrong]).await;
    assert_eq!(failure(&openai(&server)).await.kind, FailureKind::Refused);
}

#[tokio::test]
async fn a_server_is_healthy_when_it_lists_its_models() {
    for (status, is_healthy) in [
        ("200 OK", true),
        ("404 Not Found", false),
        ("405 Method Not Allowed", true),
        ("401 Unauthorized", false),
        ("403 Forbidden", false),
        ("502 Bad Gateway", false),
    ] {
        let mut server = FakeServer::start(vec![response(status, "", "{}")]).await;
        assert_eq!(openai(&server).health().await.is_ok(), is_healthy, "{status}");
        assert!(server.request().await.head.starts_with("get /v1/models"));
    }
    let dead = OpenAiProvider::new(settings(&dead_address().await)).unwrap();
    assert_eq!(dead.health().await.unwrap_err().kind, FailureKind::Unavailable);
}
