//! Every row of the validation tables of both chat dialects, over each path that reads it.

use serde_json::{Value, json};

use crate::support::builder::TestServerBuilder;
use crate::support::chat_client::{CHAT, CHAT_STREAM, Dialect};
use crate::support::chat_contract::verdict;
use crate::support::http::Request;
use crate::support::seeded_random::{SeededRandom, soak};
use crate::support::test_server::TestServer;

const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

/// A value of a field, and what its error names; `None` for a valid value.
type Row = (&'static str, Value, Option<&'static str>);

fn good(field: &'static str, value: Value) -> Row {
    (field, value, None)
}

fn bad(field: &'static str, value: Value, named: &'static str) -> Row {
    (field, value, Some(named))
}

/// The table of the chat dialect: query, session_id, mode, selected_text, top_k, score_threshold, filters.
fn chat_rows() -> Vec<Row> {
    vec![
        bad("query", json!(null), "query"),
        bad("query", json!(5), "query"),
        bad("query", json!(["why?"]), "query"),
        bad("query", json!(""), "query is empty"),
        bad("query", json!("a".repeat(2001)), "query has 2001 characters"),
        good("query", json!("🙂".repeat(2000))),
        good("query", json!("?")),
        bad("session_id", json!(5), "session_id"),
        bad("session_id", json!(""), "session_id"),
        bad("session_id", json!("mine"), "session_id"),
        bad("session_id", json!(ID.to_uppercase()), "session_id"),
        bad("session_id", json!(ID.replace('-', "")), "session_id"),
        bad("session_id", json!(format!("{ID}0")), "session_id"),
        bad("session_id", json!(format!("urn:uuid:{ID}")), "session_id"),
        good("session_id", json!(ID)),
        good("session_id", json!("00000000-0000-0000-0000-000000000000")),
        bad("mode", json!("Selected"), "mode"),
        bad("mode", json!(""), "mode"),
        bad("mode", json!(1), "mode"),
        good("mode", json!("general")),
        bad("mode", json!("selected_text"), "selected_text is required"),
        bad("selected_text", json!(5), "selected_text"),
        bad("selected_text", json!("a".repeat(10_001)), "selected_text has 10001 characters"),
        good("selected_text", json!("🙂".repeat(10_000))),
        good("selected_text", json!("")),
        bad("top_k", json!(0), "top_k is 0; it must be 1 to 20"),
        bad("top_k", json!(21), "top_k is 21"),
        bad("top_k", json!(-1), "top_k"),
        bad("top_k", json!(5.5), "top_k"),
        bad("top_k", json!("5"), "top_k"),
        bad("top_k", json!(true), "top_k"),
        good("top_k", json!(1)),
        good("top_k", json!(20)),
        bad("score_threshold", json!(-0.01), "score_threshold"),
        bad("score_threshold", json!(1.01), "score_threshold"),
        bad("score_threshold", json!("0.5"), "score_threshold"),
        good("score_threshold", json!(0.0)),
        good("score_threshold", json!(1)),
        bad("filters", json!("title"), "filters"),
        bad("filters", json!(["title"]), "filters"),
        bad("filters", json!({"page_title": 5}), "filters.page_title"),
        bad("filters", json!({"page_title": ["a", 5]}), "filters.page_title"),
        bad("filters", json!({"page_title": {"a": "b"}}), "filters.page_title"),
        good("filters", json!({"source_url": "/a", "page_title": ["A", "B"], "section_heading": "C"})),
        good("filters", json!({"metadata.team": "core"})),
        good("filters", json!({})),
    ]
}

/// The table of the staged dialect: message, session_id.
fn staged_rows() -> Vec<Row> {
    vec![
        bad("message", json!(5), "message"),
        bad("message", json!({"text": "why?"}), "message"),
        bad("message", json!(""), "message is empty"),
        bad("message", json!("a".repeat(5001)), "message has 5001 characters"),
        good("message", json!("🙂".repeat(5000))),
        good("message", json!("?")),
        bad("session_id", json!(null), "session_id"),
        bad("session_id", json!(5), "session_id"),
        bad("session_id", json!(""), "session_id"),
        bad("session_id", json!("mine"), "session_id"),
        bad("session_id", json!(ID.to_uppercase()), "session_id"),
        bad("session_id", json!(ID.replace('-', "")), "session_id"),
    ]
}

async fn check_row(server: &TestServer, path: &str, body: &Value, named: Option<&str>) {
    let answer = server.call(Request::post_json(path, body)).await;
    let Some(named) = named else {
        assert_eq!(answer.status, 200, "{path} {body:.200}");
        answer.body().await;
        return;
    };
    let error = answer.chat_error(422, "validation_error").await;
    let message = error["message"].as_str().expect("a message is a text");
    assert!(message.contains(named), "{path} {body:.200}: {message}");
}

#[tokio::test]
async fn every_row_of_the_chat_table_holds_with_and_without_a_stream() {
    let server = TestServerBuilder::with_model("fake,tokens=1").start().await;
    for (field, value, named) in chat_rows() {
        let mut body = json!({"query": "why does water run down?"});
        body[field] = value;
        assert_eq!(
            verdict("ChatRequest", &body) == "ok",
            named.is_none(),
            "the published model agrees: {body:.200}"
        );
        check_row(&server, CHAT, &body, named).await;
        // Without a question the dialect of a stream is unknown.
        let named = if body["query"].is_null() { Some("neither a query nor a message") } else { named };
        check_row(&server, CHAT_STREAM, &body, named).await;
    }
    for (path, named) in [(CHAT, "missing field `query`"), (CHAT_STREAM, "neither a query nor a message")] {
        check_row(&server, path, &json!({"session_id": ID}), Some(named)).await;
    }
}

#[tokio::test]
async fn every_row_of_the_staged_table_holds() {
    let server = TestServerBuilder::with_model("fake,tokens=1").start().await;
    let session = server.session().await;
    for (field, value, named) in staged_rows() {
        let mut body = Dialect::Staged.body(&session);
        body[field] = value;
        // The published model accepts any 36 of those characters; the contract accepts UUIDs.
        assert_eq!(
            verdict("ChatStreamRequest", &body) == "ok",
            named.is_none(),
            "the published model agrees: {body:.200}"
        );
        check_row(&server, CHAT_STREAM, &body, named).await;
    }
    check_row(&server, CHAT_STREAM, &json!({"message": "why?"}), Some("missing field `session_id`")).await;
    check_row(
        &server,
        CHAT_STREAM,
        &json!({"message": "why?", "session_id": "-".repeat(36)}),
        Some("session_id"),
    )
    .await;
}

#[tokio::test]
async fn rules_of_the_contract_beyond_the_tables_hold() {
    let server = TestServerBuilder::with_model("fake,tokens=1").start().await;
    let session = server.session().await;
    let good = [
        json!({"query": "why?", "top_k": 5.0}),
        json!({"query": "why?", "mode": null, "top_k": null, "filters": null, "temperature": {"x": []}}),
        json!({"query": "why?", "filters": {"page_title": null}}),
        json!({"message": "why?", "session_id": session, "query": null, "stream": true}),
    ];
    for body in good {
        check_row(&server, CHAT_STREAM, &body, None).await;
    }
    for (body, named) in [
        (json!({"query": " \t\n\u{a0}\u{3000}"}), "query is empty"),
        (json!({"message": " \n", "session_id": session}), "message is empty"),
        (json!({"query": "why?", "filters": {"colour": "blue"}}), "filters.colour is not a filter"),
        (json!({"query": "why?", "filters": {"repoUrl": "x"}}), "filters.repoUrl is not a filter"),
        (json!({"query": "why?", "filters": {"page_title": []}}), "filters.page_title is empty"),
        (json!({"query": "why?", "mode": "selected_text", "selected_text": ""}), "selected_text is required"),
    ] {
        check_row(&server, CHAT_STREAM, &body, Some(named)).await;
    }
}

#[tokio::test]
async fn a_refused_question_leaves_no_trace() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let refused = json!({"query": "why?", "session_id": ID, "top_k": 0});
    server.call(Request::post_json(CHAT, &refused)).await.chat_error(422, "validation_error").await;
    server.get(&format!("/conversations/{ID}")).await.chat_error(404, "not_found").await;
    assert_eq!(server.fake.chats(), []);

    let full =
        TestServerBuilder::with_model("fake").limits(|limits| limits.concurrent_streams = 0).start().await;
    let question = json!({"query": "why?", "session_id": ID});
    full.call(Request::post_json(CHAT, &question)).await.chat_error(503, "overloaded").await;
    full.get(&format!("/conversations/{ID}")).await.chat_error(404, "not_found").await;
}

#[tokio::test]
async fn randomly_mutated_bodies_are_accepted_or_refused() {
    let server = TestServerBuilder::with_model("fake,tokens=1").start().await;
    let valid = [
        json!({"query": "why?", "session_id": ID, "top_k": 5, "score_threshold": 0.5, "filters": {"page_title": ["a", "é"]}}),
        json!({"message": "why?", "session_id": ID}),
    ];
    let mut random = SeededRandom::new(11);
    for _ in 0..soak(300, 20_000) {
        let mut body = valid[random.below(2)].to_string().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(body.len());
            match random.below(4) {
                0 => drop(body.remove(at)),
                1 => body.insert(at, b"{}[]\",:\\0\xff"[random.below(10)]),
                2 => body[at] = u8::try_from(random.below(256)).expect("a byte"),
                _ => body.truncate(at + 1),
            }
        }
        let path = if random.below(2) == 0 { CHAT } else { CHAT_STREAM };
        let answer = server.call(Request::post(path, body.clone())).await;
        match answer.status {
            200 => drop(answer.body().await),
            404 => drop(answer.chat_error(404, "session_not_found").await),
            _ => drop(answer.chat_error(422, "validation_error").await),
        }
    }
}
