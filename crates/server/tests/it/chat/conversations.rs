//! `GET /conversations/{session_id}`: the messages of a session, in whichever dialect it was asked.

use serde_json::{Value, json};
use testing::{ScriptedRetriever, fake_text, passage};

use crate::support::builder::{ProviderKind, TestServerBuilder};
use crate::support::chat_client::{CHAT, Dialect};
use crate::support::chat_contract::check;
use crate::support::delta_stream::Encoding;
use crate::support::http::Request;
use crate::support::test_server::{TestServer, question};

async fn messages(server: &TestServer, session: &str, query: &str) -> Vec<Value> {
    let conversation = server.get(&format!("/conversations/{session}{query}")).await.json(200).await;
    assert_eq!(conversation["session_id"], session);
    conversation["messages"].as_array().expect("messages are a list").clone()
}

#[tokio::test]
async fn every_dialect_writes_to_the_conversation_of_its_session() {
    let found = vec![passage("Rivers", "Rivers run down.")];
    let server = TestServerBuilder::with_model("fake,tokens=3")
        .retriever(ScriptedRetriever::finding(found))
        .start()
        .await;
    let session = server.session().await;
    let generation = server.ask(&session).await.all().await;
    let chat =
        server.call(Request::post_json(CHAT, &json!({"query": "and up?", "session_id": session}))).await;
    let chat = chat.header("x-prompt-id").expect("the prompt is named").to_owned();
    let staged =
        server.chat_stream(Dialect::Staged, &json!({"message": "why?", "session_id": session})).await;
    let staged_prompt = staged.prompt();
    staged.all().await;

    let messages = messages(&server, &session, "").await;
    let asked: Vec<_> =
        messages.iter().step_by(2).map(|message| (&message["id"], &message["content"])).collect();
    assert_eq!(
        asked,
        [
            (&json!(generation.prompt), &json!("why does water run down?")),
            (&json!(chat), &json!("and up?")),
            (&json!(staged_prompt), &json!("why?")),
        ]
    );
    for (index, message) in messages.iter().enumerate() {
        let is_answer = index % 2 == 1;
        assert_eq!(message["role"], if is_answer { "assistant" } else { "user" }, "{message}");
        assert_eq!(message["mode"], "general");
        let fields: Vec<_> = message.as_object().expect("an object").keys().map(String::as_str).collect();
        if is_answer {
            assert_eq!(message["content"], fake_text(3));
            check("SourceCitation", &message["sources"][0]);
            assert_eq!(message["sources"][0]["chunk_text"], "Rivers run down.");
            assert_eq!(fields, ["content", "created_at", "id", "mode", "role", "sources"]);
        } else {
            assert_eq!(fields, ["content", "created_at", "id", "mode", "role"]);
        }
    }
    let times: Vec<_> = messages.iter().map(|message| message["created_at"].as_str()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test]
async fn the_newest_messages_are_listed_oldest_first() {
    let server = TestServerBuilder::with_model("fake,echo").start().await;
    let session = server.session().await;
    server.chat_stream(Dialect::Staged, &json!({"message": "one", "session_id": session})).await.all().await;
    server.chat_stream(Dialect::Staged, &json!({"message": "two", "session_id": session})).await.all().await;
    for (query, expected) in [
        ("?limit=1", vec!["assistant"]),
        ("?limit=3", vec!["assistant", "user", "assistant"]),
        ("?limit=100", vec!["user", "assistant", "user", "assistant"]),
        ("", vec!["user", "assistant", "user", "assistant"]),
    ] {
        let messages = messages(&server, &session, query).await;
        let roles: Vec<_> = messages.iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, expected, "{query}");
        let asked: Vec<_> = messages.iter().filter(|message| message["role"] == "user").collect();
        let questions = &["one", "two"][2 - asked.len()..];
        assert!(asked.iter().map(|message| &message["content"]).eq(questions), "{query}: {asked:?}");
    }
    for bad in ["0", "101", "-1", "x", "", "2.5"] {
        let refused = server.get(&format!("/conversations/{session}?limit={bad}")).await;
        refused.chat_error(422, "validation_error").await;
    }
}

#[tokio::test]
async fn a_cancelled_turn_keeps_its_partial_text_and_one_without_text_is_omitted() {
    let server = TestServerBuilder::with_model("fake,stall=3,times=1").provider(
        "broken",
        ProviderKind::Ollama,
        "fake,status=401",
    );
    let server = server.order(&["local"]).start().await;
    let session = server.session().await;
    assert!(messages(&server, &session, "").await.is_empty());
    let mut stream = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(&session)).await;
    for _ in 0..3 {
        stream.until("token").await;
    }
    assert!(messages(&server, &session, "").await.is_empty(), "a turn is written at its end");
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    let mut failing = question(&session);
    failing["provider"] = json!("broken");
    server.stream(Encoding::Ndjson, &failing).await.all().await.error("provider_unavailable", false);
    let messages = messages(&server, &session, "").await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1]["content"], fake_text(3));
    assert_eq!(server.get_prompt(messages[0]["id"].as_str().unwrap()).await["status"], "cancelled");
}
