//! The format of Ollama's API.

use serde_json::{Value, json};
use testing::{FakeModel, fake_text};

use crate::client::{ask, ask_all, content, post};

const PATH: &str = "/api/chat";

#[tokio::test]
async fn lines_have_ollamas_shape() {
    let fake = FakeModel::start().await;
    let answer = ask(&fake, PATH, "fake,tokens=3").await;
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let mut lines = answer.body().await.json_frames();
    assert_eq!(lines.len(), 4);
    let timestamps: Vec<_> = lines.iter_mut().map(|line| line["created_at"].take()).collect();
    assert!(timestamps.is_sorted_by_key(|timestamp| timestamp.as_str().unwrap().to_owned()));
    assert_ne!(timestamps[0], timestamps[1]);

    let message = json!({"role": "assistant", "content": "Water "});
    let first = json!({"model": "fake,tokens=3", "created_at": null, "message": message, "done": false});
    assert_eq!(lines[0], first);
    let last = lines[3].as_object().unwrap();
    assert_eq!(last["message"], json!({"role": "assistant", "content": ""}));
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
    assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(5), &json!(3)));
    for duration in ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"] {
        assert!(last[duration].as_u64().unwrap() > 0, "{duration}");
    }
}

#[tokio::test]
async fn an_answer_is_streamed_by_default() {
    let fake = FakeModel::start().await;
    let mut request = json!({"model": "fake,reasoning=2", "messages": [{"role": "user", "content": "hi"}]});
    let streamed = post(&fake, PATH, &request).await.body().await;
    assert_eq!(streamed.json_frames().len(), 19);
    request["stream"] = json!(false);
    let whole = post(&fake, PATH, &request).await.body().await.json();
    assert_eq!(whole["message"]["content"], fake_text(16));
    assert_eq!(whole["message"]["thinking"], fake_text(2));
    assert_eq!(whole["done"], true);
}

#[tokio::test]
async fn thinking_comes_before_the_text() {
    let fake = FakeModel::start().await;
    let lines = ask_all(&fake, PATH, "fake,reasoning=2,tokens=1").await.json_frames();
    let field = |name| lines.iter().map(|line| content(line, name)).collect::<Vec<_>>();
    assert_eq!(field("thinking"), [Some("Water "), Some("runs "), None, None]);
    assert_eq!(field("content"), [Some(""), Some(""), Some("Water "), Some("")]);
}

#[tokio::test]
async fn a_tool_call_is_one_line() {
    let fake = FakeModel::start().await;
    let lines = ask_all(&fake, PATH, "fake,tool=searchDocuments").await.json_frames();
    let arguments = json!({"query": "why does water run down?"});
    let call = json!([{"function": {"name": "searchDocuments", "arguments": arguments}}]);
    assert_eq!(lines[0]["message"]["tool_calls"], call);
    assert_eq!(lines[1]["done_reason"], "stop");
    assert_eq!(lines[1]["message"].get("tool_calls"), None::<&Value>);
}
