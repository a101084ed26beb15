//! The chat dialect: complete answers and streamed ones.

use serde_json::{Value, json};
use testing::{ScriptedRetriever, fake_text, passage};

use crate::support::builder::TestServerBuilder;
use crate::support::chat_client::{CHAT, CHAT_STREAM, Dialect, text, types};
use crate::support::http::Request;

/// A server whose retriever finds two passages, one of them under a heading.
fn with_passages(model: &str) -> TestServerBuilder {
    let mut rivers = passage("Rivers", "Rivers run down to the sea.");
    rivers.section = Some("Course".to_owned());
    rivers.subsection = Some("Lower course".to_owned());
    let mut lakes = passage("Lakes", &"Lakes are still. ".repeat(40));
    lakes.url = Some("/docs/lakes#still".to_owned());
    TestServerBuilder::with_model(model).retriever(ScriptedRetriever::finding(vec![rivers, lakes]))
}

fn expected_sources() -> Value {
    let lakes: String = "Lakes are still. ".repeat(40).chars().take(500).collect();
    json!([
        {
            "source_url": "https://example.com/repository/Rivers.md",
            "page_title": "Rivers",
            "section_heading": "Lower course",
            "chunk_text": "Rivers run down to the sea.",
            "relevance_score": 0.8,
        },
        {
            "source_url": "/docs/lakes#still",
            "page_title": "Lakes",
            "section_heading": "Introduction",
            "chunk_text": lakes,
            "relevance_score": 0.8,
        },
    ])
}

#[tokio::test]
async fn a_question_is_answered_with_its_sources() {
    let server = with_passages("fake,tokens=20").start().await;
    let answer = server.call(Request::post_json(CHAT, &json!({"query": "why does water run down?"}))).await;
    for name in ["x-prompt-id", "x-session-id", "x-trace-id"] {
        assert!(answer.header(name).is_some(), "{name}");
    }
    let answer = answer.json(200).await;
    crate::support::chat_contract::check("ChatResponse", &answer);
    assert_eq!(answer["answer"], fake_text(20));
    assert_eq!(answer["sources"], expected_sources());
    assert_eq!(answer["mode"], "general");
    assert_eq!(answer["metadata"]["chunks_retrieved"], 2);
    assert_eq!(answer["metadata"]["model"], "fake,tokens=20");
    assert!(answer["metadata"]["query_time_ms"].as_f64().is_some_and(|time| time >= 0.0), "{answer}");
}

#[tokio::test]
async fn a_streamed_answer_is_its_chunks_then_its_sources_then_its_end() {
    let server = with_passages("fake,tokens=20").start().await;
    let events =
        server.chat_stream(Dialect::Chat, &json!({"query": "why does water run down?"})).await.all().await;
    assert_eq!(types(&events), ["chunk", "sources", "done"]);
    assert_eq!(text(&events), fake_text(20));
    let last = events.len() - 1;
    assert_eq!(events[last - 1], json!({"type": "sources", "sources": expected_sources()}));
    let metadata = &events[last]["metadata"];
    assert_eq!((&metadata["chunks_retrieved"], &metadata["model"]), (&json!(2), &json!("fake,tokens=20")));
}

#[tokio::test]
async fn the_body_selects_the_dialect_of_a_stream() {
    let server = with_passages("fake,tokens=3").start().await;
    let session = server.session().await;
    let staged = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await.all().await;
    assert_eq!(text(&staged), fake_text(3));
    let nulls = json!({"query": "why?", "message": null});
    assert_eq!(text(&server.chat_stream(Dialect::Chat, &nulls).await.all().await), fake_text(3));
    for body in [
        json!({"query": "why?", "message": "why?", "session_id": session}),
        json!({"session_id": session}),
        json!({"query": null, "message": null}),
    ] {
        server.call(Request::post_json(CHAT_STREAM, &body)).await.chat_error(422, "validation_error").await;
    }
}
