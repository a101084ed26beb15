use std::sync::Arc;
use std::time::Duration;

use domain::{FailureKind, ModelEvent, Provider};
use futures::StreamExt;
use providers::{FallbackProvider, HttpProviderSettings, OllamaProvider, OpenAiProvider};

use crate::fake_server::{
    FakeServer, Reply, begin_of_stream, dead_address, failure, question, response, settings, streamed, words,
};

const ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
const EMPTY: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn remote(server: &FakeServer) -> Arc<dyn Provider> {
    let settings = HttpProviderSettings { name: "remote".to_owned(), ..settings(&server.url) };
    Arc::new(OpenAiProvider::new(settings).unwrap())
}

fn fallback(members: Vec<Arc<dyn Provider>>) -> FallbackProvider {
    FallbackProvider::new(members, Duration::from_secs(60))
}

#[tokio::test]
async fn the_next_provider_answers_when_one_is_down() {
    let server = FakeServer::start(vec![streamed(ANSWER)]).await;
    let down = Arc::new(OllamaProvider::new(settings(&dead_address().await)).unwrap());
    assert_eq!(words(&fallback(vec![down, remote(&server)])).await, "Hi");
}

#[tokio::test]
async fn an_empty_answer_falls_back_and_the_failure_has_all_reasons() {
    let empty = FakeServer::start(vec![streamed(EMPTY)]).await;
    let busy = FakeServer::start(vec![response("429 Too Many Requests", "retry-after: 3\r\n", "")]).await;
    let failure = failure(&fallback(vec![remote(&empty), remote(&busy)])).await;
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
    assert_eq!(failure.message, "remote: ended without an answer; remote: answered 429 Too Many Requests");
}

#[tokio::test]
async fn dropping_the_stream_aborts_the_members_call() {
    let part = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let mut server = FakeServer::start(vec![Reply::Open(begin_of_stream(part))]).await;
    let mut answer = fallback(vec![remote(&server)]).stream(question());
    while !matches!(answer.next().await.unwrap().unwrap(), ModelEvent::Text(_)) {}
    drop(answer);
    server.closed().await;
}
