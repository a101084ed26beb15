//! The format of OpenAI's API.

use serde_json::{Value, json};
use testing::{FakeModel, fake_text};

use crate::client::{ask, ask_all, content, post};

const PATH: &str = "/v1/chat/completions";

#[tokio::test]
async fn chunks_have_openais_shape() {
    let fake = FakeModel::start().await;
    let answer = ask(&fake, PATH, "fake,tokens=3").await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let body = answer.body().await;
    assert_eq!(body.frames().last().unwrap(), "[DONE]");
    let chunks = body.json_frames();
    assert_eq!(chunks.len(), 5);
    let created = chunks[0]["created"].as_u64().unwrap();
    let chunk = |delta: Value, finish_reason: Value| {
        json!({
            "id": "chatcmpl-fake0", "object": "chat.completion.chunk", "created": created,
            "model": "fake,tokens=3", "system_fingerprint": "fp_fake",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}],
        })
    };
    let role = json!({"role": "assistant", "content": "", "refusal": null});
    assert_eq!(chunks[0], chunk(role, Value::Null));
    assert_eq!(chunks[1], chunk(json!({"content": "Water "}), Value::Null));
    assert_eq!(chunks[4], chunk(json!({}), json!("stop")));
}

#[tokio::test]
async fn usage_is_sent_on_request() {
    let fake = FakeModel::start().await;
    let messages = json!([{"role": "user", "content": "one two three"}]);
    let options = json!({"include_usage": true});
    let request = json!({"model": "fake", "stream": true, "stream_options": options, "messages": messages});
    let chunks = post(&fake, PATH, &request).await.body().await.json_frames();
    let (last, others) = chunks.split_last().unwrap();
    assert!(others.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens"], 3);
    assert_eq!(last["usage"]["completion_tokens"], 16);
    assert_eq!(last["usage"]["total_tokens"], 19);
    let silent = ask_all(&fake, PATH, "fake").await.json_frames();
    assert!(silent.iter().all(|chunk| chunk.get("usage").is_none()));
}

#[tokio::test]
async fn an_answer_may_be_one_json_object() {
    let fake = FakeModel::start().await;
    let request = json!({"model": "fake,reasoning=2", "messages": [{"role": "user", "content": "hi"}]});
    let answer = post(&fake, PATH, &request).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.body().await.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["choices"][0]["message"]["content"], fake_text(16));
    assert_eq!(body["choices"][0]["message"]["reasoning_content"], fake_text(2));
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["usage"]["completion_tokens"], 18);
}

#[tokio::test]
async fn reasoning_comes_before_the_text() {
    let fake = FakeModel::start().await;
    let chunks = ask_all(&fake, PATH, "fake,reasoning=2,tokens=1").await.json_frames();
    let field = |name| chunks.iter().map(|chunk| content(chunk, name)).collect::<Vec<_>>();
    assert_eq!(field("reasoning_content"), [None, Some("Water "), Some("runs "), None, None]);
    assert_eq!(field("content"), [Some(""), None, None, Some("Water "), None]);
}

#[tokio::test]
async fn a_tool_call_is_streamed_in_fragments_once() {
    let fake = FakeModel::start().await;
    let chunks = ask_all(&fake, PATH, "fake,tool=searchDocuments").await.json_frames();
    let calls: Vec<_> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]).collect();
    assert_eq!(calls[1]["id"], "call_fake");
    assert_eq!(calls[1]["function"]["name"], "searchDocuments");
    let arguments: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap()["query"], "why does water run down?");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");

    let messages = json!([{"role": "user", "content": "hi"}, {"role": "tool", "content": "found"}]);
    let request = json!({"model": "fake,tool=searchDocuments", "stream": true, "messages": messages});
    assert_eq!(post(&fake, PATH, &request).await.body().await.text(), fake_text(16));
}

#[tokio::test]
async fn a_tool_call_may_be_in_one_json_object() {
    let fake = FakeModel::start().await;
    let request = json!({"model": "fake,tool=search", "messages": [{"role": "user", "content": "hi"}]});
    let body = post(&fake, PATH, &request).await.body().await.json();
    let message = &body["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"query":"hi"}"#);
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
}
