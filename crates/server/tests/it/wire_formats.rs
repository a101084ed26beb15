//! Snapshots of what each dialect sends for one complete prompt. `INSTA_UPDATE=always cargo nextest run -p
//! server wire_formats` rewrites them.

use serde_json::json;
use testing::{ScriptedRetriever, passage};
use uuid::Uuid;

use crate::support::builder::TestServerBuilder;
use crate::support::chat_client::{CHAT, CHAT_STREAM};
use crate::support::http::Request;
use crate::support::test_server::{STREAM, TestServer};

const QUESTION: &str = "why does water run down?";

/// A server that finds two passages and answers with three tokens.
async fn server() -> TestServer {
    let passages = vec![passage("Rivers", "Rivers run down."), passage("Lakes", "Lakes are still.")];
    let retriever = ScriptedRetriever::finding(passages);
    TestServerBuilder::with_model("fake,tokens=3").retriever(retriever).start().await
}

/// Compares a response's body with its snapshot, which both test binaries share.
async fn check(server: &TestServer, name: &str, request: Request) {
    let body = server.call(request).await.body().await;
    let body = redact(str::from_utf8(&body).expect("a body is UTF-8"));
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, body);
    });
}

/// Replaces what differs between runs: ids, times and measured durations.
fn redact(text: &str) -> String {
    let (mut redacted, mut ids, mut rest) = (String::new(), Vec::new(), text);
    while let Some(character) = rest.chars().next() {
        let length = if let Some(id) = rest.get(..36).filter(|id| Uuid::try_parse(id).is_ok()) {
            let known = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            });
            redacted.push_str(&format!("<id {}>", known + 1));
            id.len()
        } else if let Some(time) = rest.get(..24).filter(|text| is_time(text)) {
            redacted.push_str("<time>");
            time.len()
        } else if let Some(measured) = measured(rest) {
            redacted.push_str(&format!("{measured}<measured>"));
            measured.len() + rest[measured.len()..].find([',', '}']).expect("a number ends")
        } else {
            redacted.push(character);
            character.len_utf8()
        };
        rest = &rest[length..];
    }
    redacted
}

fn is_time(text: &str) -> bool {
    let digits = |digit: char| if digit.is_ascii_digit() { '0' } else { digit };
    text.chars().map(digits).eq("0000-00-00T00:00:00.000Z".chars())
}

/// The name of a measured field, if the text begins with one.
fn measured(text: &str) -> Option<&'static str> {
    const FIELDS: [&str; 3] = ["\"timeToFirstTokenMs\":", "\"tokensPerSecond\":", "\"query_time_ms\":"];
    FIELDS.into_iter().find(|field| text.starts_with(field))
}

#[tokio::test]
async fn one_prompt_in_the_generation_dialect() {
    for (name, accept) in
        [("generation.ndjson", "application/x-ndjson"), ("generation.sse", "text/event-stream")]
    {
        let server = server().await;
        let body = json!({"sessionId": server.session().await, "prompt": QUESTION, "idempotencyKey": "k"});
        check(&server, name, Request::post_json(STREAM, &body).header("Accept", accept)).await;
    }
}

#[tokio::test]
async fn one_prompt_in_the_chat_dialect() {
    for (name, path) in [("chat.json", CHAT), ("chat.sse", CHAT_STREAM)] {
        let server = server().await;
        let body = json!({"query": QUESTION, "session_id": server.session().await});
        check(&server, name, Request::post_json(path, &body)).await;
    }
}

#[tokio::test]
async fn one_prompt_in_the_staged_dialect() {
    let server = server().await;
    let body = json!({"message": QUESTION, "session_id": server.session().await});
    check(&server, "staged.sse", Request::post_json(CHAT_STREAM, &body)).await;
}

#[tokio::test]
async fn the_events_of_one_prompt() {
    let server = server().await;
    let body = json!({"sessionId": server.session().await, "prompt": QUESTION});
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let answer = server.call(Request::post_json(STREAM, &body).header("traceparent", trace)).await;
    let prompt = answer.header("x-prompt-id").expect("a stream names its prompt").to_owned();
    answer.body().await;
    check(&server, "events.sse", Request::get(format!("/api/prompts/{prompt}/events"))).await;
}
