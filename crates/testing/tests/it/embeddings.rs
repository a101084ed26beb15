//! Embedding requests over HTTP.

use serde_json::{Value, json};
use testing::{FakeModel, RequestEnding, fake_vector};
use tokio::io::AsyncReadExt;

use crate::client::{Answer, connect, post, send};

const PATHS: [&str; 2] = ["/v1/embeddings", "/api/embed"];

async fn embed(fake: &FakeModel, path: &str, model: &str, input: Value) -> Answer {
    post(fake, path, &json!({"model": model, "input": input})).await
}

async fn answer(fake: &FakeModel, path: &str, model: &str, input: Value) -> Value {
    embed(fake, path, model, input).await.body().await.json()
}

#[tokio::test]
async fn every_text_gets_its_vector() {
    let fake = FakeModel::start().await;
    let (one, two) = (fake_vector("one", 8), fake_vector("and two", 8));
    let openai = answer(&fake, PATHS[0], "fake,dimension=8", json!(["one", "and two"])).await;
    let data = json!([
        {"object": "embedding", "index": 0, "embedding": one},
        {"object": "embedding", "index": 1, "embedding": two},
    ]);
    assert_eq!((&openai["data"], &openai["usage"]["prompt_tokens"]), (&data, &json!(3)));
    let ollama = answer(&fake, PATHS[1], "fake,dimension=8", json!(["one", "and two"])).await;
    assert_eq!((&ollama["embeddings"], &ollama["prompt_eval_count"]), (&json!([one, two]), &json!(3)));
    assert_eq!(fake.embeddings()[1].texts(), ["one", "and two"]);
}

#[tokio::test]
async fn the_input_may_be_a_single_text() {
    let fake = FakeModel::start().await;
    let ollama = answer(&fake, PATHS[1], "fake", json!("alone")).await;
    assert_eq!(ollama["embeddings"], json!([fake_vector("alone", 64)]));
}

#[tokio::test]
async fn vectors_may_come_in_reverse_order() {
    let fake = FakeModel::start().await;
    let openai = answer(&fake, PATHS[0], "fake,reverse", json!(["a", "b", "c"])).await;
    let indexes: Vec<_> = openai["data"].as_array().unwrap().iter().map(|vector| &vector["index"]).collect();
    assert_eq!(indexes, [2, 1, 0]);
}

#[tokio::test]
async fn long_texts_are_rejected_or_truncated() {
    let fake = FakeModel::start().await;
    let input = json!(["short", "one two three"]);
    assert_eq!(embed(&fake, PATHS[0], "fake,longest=2", input.clone()).await.status, 400);
    let ollama = answer(&fake, PATHS[1], "fake,longest=2", input.clone()).await;
    assert_eq!(ollama["embeddings"][1], json!(fake_vector("one two", 64)));
    let body = json!({"model": "fake,longest=2", "input": input, "truncate": false});
    assert_eq!(post(&fake, PATHS[1], &body).await.status, 400);
}

#[tokio::test]
async fn a_status_may_be_limited_to_the_first_requests() {
    let fake = FakeModel::start().await;
    for path in PATHS {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses
                .push(embed(&fake, path, "fake,status=429,retry-after=1,times=2", json!("a")).await.status);
        }
        assert_eq!(statuses, [429, 429, 200], "{path}");
    }
}

#[tokio::test]
async fn faults_affect_responses_with_more_vectors() {
    let fake = FakeModel::start().await;
    for path in PATHS {
        assert_eq!(embed(&fake, path, "fake,error=1", json!(["a"])).await.status, 200, "{path}");
        assert_eq!(embed(&fake, path, "fake,error=1", json!(["a", "b"])).await.status, 500, "{path}");
        let mut socket = connect(&fake).await;
        send(&mut socket, path, &json!({"model": "fake,die=1", "input": ["a", "b"]})).await;
        assert_eq!(socket.read(&mut [0; 64]).await.unwrap(), 0, "{path}: closed without an answer");
        assert_eq!(fake.embeddings().last().unwrap().ending, RequestEnding::Failed, "{path}");
    }
}

#[tokio::test]
async fn a_request_without_a_valid_model_is_rejected() {
    let fake = FakeModel::start().await;
    for path in PATHS {
        assert_eq!(post(&fake, path, &json!({"input": "a"})).await.status, 400, "{path}");
        assert_eq!(embed(&fake, path, "fake,dimensoin=3", json!("a")).await.status, 400, "{path}");
    }
}
