//! Sessions in the chat dialects: started, revived, busy, cancelled, beyond the limit.

use std::time::Duration;

use serde_json::{Value, json};
use testing::fake_text;

use crate::support::chat_client::{CHAT, CHAT_STREAM, Dialect, server_finding, text};
use crate::support::http::Request;
use crate::support::test_server::{advance_time, question};

const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

#[tokio::test]
async fn an_unknown_session_id_starts_a_session_and_a_missing_one_too() {
    let server = server_finding("fake,tokens=2", 1).start().await;
    let named = server.call(Request::post_json(CHAT, &json!({"query": "why?", "session_id": ID}))).await;
    assert_eq!(named.header("x-session-id"), Some(ID));
    assert_eq!(server.get_session(ID).await["promptCount"], 1);
    let mut fresh = Vec::new();
    for _ in 0..2 {
        let answer = server.call(Request::post_json(CHAT, &json!({"query": "why?"}))).await;
        fresh.push(answer.header("x-session-id").expect("the session is named").to_owned());
        let stream = server.chat_stream(Dialect::Chat, &json!({"query": "why?"})).await;
        fresh.push(stream.session());
    }
    for session in &fresh {
        assert_eq!(server.get_session(session).await["promptCount"], 1);
    }
    fresh.sort();
    fresh.dedup();
    assert_eq!(fresh.len(), 4);
}

#[tokio::test]
async fn the_staged_dialect_uses_existing_sessions_only() {
    let server = server_finding("fake,tokens=2", 1).start().await;
    let unknown = server.call(Request::post_json(CHAT_STREAM, &Dialect::Staged.body(ID))).await;
    unknown.chat_error(404, "session_not_found").await;
    server.chat(&json!({"query": "why?", "session_id": ID})).await;
    for session in [ID, &server.session().await] {
        let events = server.chat_stream(Dialect::Staged, &Dialect::Staged.body(session)).await.all().await;
        assert_eq!(text(&events), fake_text(2));
    }
}

#[tokio::test]
async fn an_expired_session_is_revived_and_an_ended_one_is_not() {
    let server = server_finding("fake,tokens=2", 1).start().await;
    let session = server.session().await;
    for dialect in [Dialect::Chat, Dialect::Staged] {
        advance_time(Duration::from_secs(4000)).await;
        assert_eq!(server.get_session(&session).await["status"], "completed");
        server.try_ask(&question(&session)).await.error(400, "session_not_found").await;
        server.chat_stream(dialect, &dialect.body(&session)).await.all().await;
        assert_eq!(server.get_session(&session).await["status"], "active");
    }
    server.end_session(&session).await.assert_no_content();
    for dialect in [Dialect::Chat, Dialect::Staged] {
        let refused = server.call(Request::post_json(CHAT_STREAM, &dialect.body(&session))).await;
        refused.chat_error(404, "session_not_found").await;
    }
}

#[tokio::test]
async fn a_second_request_in_a_session_is_refused_with_the_running_prompt() {
    let server = server_finding("fake,stall=3", 1).start().await;
    for running in [Dialect::Chat, Dialect::Staged] {
        let session = server.session().await;
        let mut stream = server.chat_stream(running, &running.body(&session)).await;
        stream.until(if running == Dialect::Chat { "chunk" } else { "token" }).await;
        for (path, second) in
            [(CHAT, Dialect::Chat), (CHAT_STREAM, Dialect::Chat), (CHAT_STREAM, Dialect::Staged)]
        {
            let refused = server.call(Request::post_json(path, &second.body(&session))).await;
            let refused = refused.chat_error(409, "concurrent_stream").await;
            assert_eq!(refused["details"]["prompt_id"], stream.prompt());
        }
        server.try_ask(&question(&session)).await.error(409, "prompt_in_flight").await;
    }
}

#[tokio::test]
async fn a_cancel_ends_a_stream_in_its_dialect_and_a_plain_request_with_409() {
    let server = server_finding("fake,stall=3", 1).start().await;
    for dialect in [Dialect::Chat, Dialect::Staged] {
        let session = server.session().await;
        let mut stream = server.chat_stream(dialect, &dialect.body(&session)).await;
        stream.until(if dialect == Dialect::Chat { "chunk" } else { "token" }).await;
        server.cancel(&session, &stream.prompt()).await.assert_no_content();
        let last = stream.rest().await.pop().expect("a terminal event comes");
        match dialect {
            Dialect::Chat => {
                assert_eq!((&last["type"], &last["error_code"]), (&json!("error"), &json!("cancelled")));
            }
            Dialect::Staged => {
                assert_eq!((&last["type"], &last["content"]), (&json!("cancelled"), &json!({})));
            }
        }
    }
    let session = server.session().await;
    let asking = tokio::spawn(Request::post_json(CHAT, &Dialect::Chat.body(&session)).send(server.address));
    let prompt = loop {
        let prompts = server.get("/api/prompts?status=in-flight").await.json(200).await;
        if let Some(prompt) = prompts["prompts"][0]["promptId"].as_str() {
            break prompt.to_owned();
        }
    };
    server.wait_until_generated(&prompt, 3).await;
    server.cancel(&session, &prompt).await.assert_no_content();
    let answer = asking.await.expect("the request does not panic");
    assert_eq!(answer.header("x-prompt-id"), Some(prompt.as_str()));
    answer.chat_error(409, "cancelled").await;
}

#[tokio::test]
async fn concurrent_limit_the_101st_stream_gets_503() {
    let server = server_finding("fake,stall=1", 1).start().await;
    let mut streams = Vec::new();
    for number in 0..100 {
        let session = server.session().await;
        let dialect = if number % 2 == 0 { Dialect::Chat } else { Dialect::Staged };
        streams.push(server.chat_stream(dialect, &dialect.body(&session)).await);
    }
    let session = server.session().await;
    let body = |dialect: Dialect| -> Value { dialect.body(&session) };
    for (path, dialect) in
        [(CHAT, Dialect::Chat), (CHAT_STREAM, Dialect::Chat), (CHAT_STREAM, Dialect::Staged)]
    {
        let refused = server.call(Request::post_json(path, &body(dialect))).await;
        let wait = refused.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
        assert!(wait >= Some(1), "{wait:?}");
        refused.chat_error(503, "overloaded").await;
    }
    // One that ends admits the next.
    drop(streams.pop());
    server.chat_stream(Dialect::Staged, &body(Dialect::Staged)).await.until("token").await;
}

#[tokio::test]
async fn ten_turns_fit_the_context_window_and_the_newest_stay() {
    const WINDOW: usize = 2_000;
    let server = server_finding("fake,tokens=200", 1).context_window(WINDOW).start().await;
    for turn in 0..10 {
        let answer = server.chat(&json!({"query": format!("question {turn}?"), "session_id": ID})).await;
        assert_eq!(answer["answer"], fake_text(200));
    }
    for (turn, sent) in server.fake.chats().iter().enumerate() {
        let messages = sent.body["messages"].as_array().expect("a chat has messages");
        let said: Vec<_> = messages.iter().filter_map(|message| message["content"].as_str()).collect();
        // A word has at least one token.
        let words: usize = said.iter().map(|content| content.split_whitespace().count()).sum();
        let answer = sent.body["options"]["num_predict"].as_u64().expect("the answer is bounded");
        assert!(words as u64 + answer <= WINDOW as u64, "{words} words and an answer of {answer}");
        let asked: Vec<_> = (0..turn).filter(|turn| said.contains(&&*format!("question {turn}?"))).collect();
        assert!(asked.is_empty() == (turn == 0), "turn {turn} has {asked:?}");
        assert_eq!(asked, (turn - asked.len()..turn).collect::<Vec<_>>(), "the newest stay");
        assert!(turn < 9 || asked.len() < 5, "the window is too small for all five: {asked:?}");
    }
}
