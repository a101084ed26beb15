use std::sync::Arc;
use std::time::Duration;

use domain::{FailureKind, ModelEvent, Provider};
use futures::StreamExt;
use providers::{HttpProvider, Ollama, OpenAi, Order};

use crate::fake_server::{
    FakeServer, Reply, begin_of_stream, dead_address, failure, question, response, settings, streamed, words,
};

const ANSWER: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
const EMPTY: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn remote(server: &FakeServer) -> Arc<dyn Provider> {
    let settings = HttpProvider { name: "remote".to_owned(), ..settings(&server.url) };
    Arc::new(OpenAi::new(settings).unwrap())
}

fn order(members: Vec<Arc<dyn Provider>>) -> Order {
    Order::new(members, Duration::from_secs(60))
}

#[tokio::test]
async fn the_next_provider_answers_for_one_that_is_down() {
    let server = FakeServer::start(vec![streamed(ANSWER)]).await;
    let down = Arc::new(Ollama::new(settings(&dead_address().await)).unwrap());
    assert_eq!(words(&order(vec![down, remote(&server)])).await, "Hi");
}

#[tokio::test]
async fn an_empty_answer_goes_to_the_next_and_all_reasons_are_told() {
    let empty = FakeServer::start(vec![streamed(EMPTY)]).await;
    let busy = FakeServer::start(vec![response("429 Too Many Requests", "retry-after: 3\r\n", "")]).await;
    let failure = failure(&order(vec![remote(&empty), remote(&busy)])).await;
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
    assert_eq!(failure.message, "remote: ended without an answer; remote: answered 429 Too Many Requests");
}

#[tokio::test]
async fn dropping_the_stream_aborts_the_members_call() {
    let part = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let mut server = FakeServer::start(vec![Reply::Open(begin_of_stream(part))]).await;
    let mut answer = order(vec![remote(&server)]).stream(question());
    while !matches!(answer.next().await.unwrap().unwrap(), ModelEvent::Text(_)) {}
    drop(answer);
    server.is_left().await;
}
