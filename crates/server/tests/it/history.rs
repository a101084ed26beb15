//! The history: lists of sessions and prompts, and the events of a prompt.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use serde_json::{Value, json};

use crate::support::builder::{ProviderKind, TestServerBuilder};
use crate::support::delta_stream::Encoding;
use crate::support::http::Request;
use crate::support::test_server::{TestServer, question};

async fn sessions(server: &TestServer, query: &str) -> Value {
    server.get(&format!("/api/sessions{query}")).await.json(200).await
}

fn ids(list: &Value) -> Vec<&str> {
    list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["sessionId"].as_str().unwrap())
        .collect()
}

/// The events of a prompt as (id, event, data).
fn parse_events(body: &[u8]) -> Vec<(u64, String, Value)> {
    let text = std::str::from_utf8(body).unwrap();
    let events = text.split_terminator("\n\n").filter(|block| !block.starts_with(':')).map(|block| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let data = serde_json::from_str(field("data: ")).unwrap();
        (field("id: ").parse().unwrap(), field("event: ").to_owned(), data)
    });
    events.collect()
}

#[tokio::test]
async fn sessions_are_listed_newest_first_and_in_pages() {
    let server = TestServerBuilder::with_model("fake,tokens=3").start().await;
    let mut made = Vec::new();
    for n in 0..5 {
        let session = server.session_with(&json!({"owner": format!("team{n}")})).await;
        let body = json!({"sessionId": session, "prompt": format!("question {n}")});
        server.stream(Encoding::Ndjson, &body).await.all().await;
        made.push(session);
    }
    made.reverse();
    let first = sessions(&server, "?limit=2").await;
    assert_eq!(ids(&first), made[..2]);
    let newest = &first["sessions"][0];
    assert_eq!((&newest["owner"], &newest["title"]), (&json!("team4"), &json!("question 4")));
    assert_eq!((&newest["promptCount"], &newest["tokenCount"]), (&json!(1), &json!(3)));
    assert_eq!(newest["status"], "active");
    assert!(newest["createdAt"].is_string() && newest["lastActiveAt"].is_string());
    let second = sessions(&server, &format!("?limit=2&before={}", first["next"].as_str().unwrap())).await;
    assert_eq!(ids(&second), made[2..4]);
    let third = sessions(&server, &format!("?limit=2&before={}", second["next"].as_str().unwrap())).await;
    assert_eq!(ids(&third), made[4..]);
    assert_eq!(third.get("next"), None);
    assert_eq!(ids(&sessions(&server, "").await), made);
}

#[tokio::test]
async fn a_session_without_a_question_has_no_title() {
    let server = TestServerBuilder::with_model("fake").start().await;
    server.session().await;
    let list = sessions(&server, "").await;
    assert_eq!((list["sessions"][0].get("title"), list["sessions"][0].get("owner")), (None, None));
}

#[tokio::test]
async fn a_bad_page_is_refused() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for query in ["?limit=0", "?limit=101", "?limit=x", "?before=x"] {
        server.get(&format!("/api/sessions{query}")).await.error(400, "invalid_request").await;
    }
    server.get("/api/prompts?status=odd").await.error(400, "invalid_request").await;
}

#[tokio::test]
async fn the_prompts_of_a_session_are_in_the_order_they_were_asked() {
    let server = TestServerBuilder::with_model("fake,tokens=2").start().await;
    let session = server.session().await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(server.ask(&session).await.all().await.prompt);
    }
    let other = server.session().await;
    server.ask(&other).await.all().await;
    let list = server.get(&format!("/api/sessions/{session}/prompts")).await.json(200).await;
    let listed: Vec<_> = list["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["promptId"].as_str().unwrap())
        .collect();
    assert_eq!(listed, asked);
    assert_eq!(
        list["prompts"][0],
        server.get_prompt(&asked[0]).await,
        "the prompt of the generation dialect"
    );
    for unknown in ["0190a0b0-0000-7000-8000-000000000001", "mine", "%FF"] {
        server.get(&format!("/api/sessions/{unknown}/prompts")).await.error(404, "session_not_found").await;
    }
}

#[tokio::test]
async fn running_and_recent_prompts_are_listed_by_status() {
    let builder =
        TestServerBuilder::with_model("fake,stall=2").provider("good", ProviderKind::Ollama, "fake,tokens=2");
    let server = builder.order(&["local"]).start().await;
    let done = json!({"sessionId": server.session().await, "prompt": "p", "provider": "good"});
    let done = server.stream(Encoding::Ndjson, &done).await.all().await.prompt;
    let mut running = server.ask(&server.session().await).await;
    running.tokens(2).await;
    let list = async |query: &str| {
        let list = server.get(&format!("/api/prompts{query}")).await.json(200).await;
        let ids = list["prompts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|prompt| prompt["promptId"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(list("").await, [running.prompt(), done.clone()]);
    assert_eq!(list("?status=in-flight").await, [running.prompt()]);
    assert_eq!(list("?status=done").await, [done]);
    assert_eq!(list("?status=error").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_its_history() {
    let server = TestServerBuilder::with_model("fake,stall=2").start().await;
    let session = server.session().await;
    let mut running = server.ask(&session).await;
    running.tokens(2).await;
    let prompt = running.prompt();
    server.call(Request::delete(format!("/api/sessions/{session}"))).await.assert_no_content();
    assert_eq!(
        running.rest().await.last().unwrap()["metadata"]["cancelled"],
        true,
        "its running prompt was cancelled"
    );
    server.get(&format!("/api/generation/session/{session}")).await.error(404, "session_not_found").await;
    server.get(&format!("/api/generation/prompts/{prompt}")).await.error(404, "prompt_not_found").await;
    server.try_ask(&question(&session)).await.error(400, "session_not_found").await;
    assert_eq!(sessions(&server, "").await, json!({"sessions": []}));
    for unknown in [session.as_str(), "mine", "%FF"] {
        server
            .call(Request::delete(format!("/api/sessions/{unknown}")))
            .await
            .error(404, "session_not_found")
            .await;
    }
}

#[tokio::test]
async fn every_event_of_a_prompt_can_be_read() {
    let server = TestServerBuilder::with_model("fake,tokens=3,reasoning=2").start().await;
    let session = server.session().await;
    let body = json!({"sessionId": session, "prompt": "why?", "idempotencyKey": "k"});
    let answer = server.stream(Encoding::Ndjson, &body).await.all().await;
    let events = server.get(&format!("/api/prompts/{}/events", answer.prompt)).await;
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert_eq!(events.header("x-prompt-id"), Some(answer.prompt.as_str()));
    let events = parse_events(&events.body().await);
    let names: Vec<_> = events.iter().map(|(_, name, _)| name.as_str()).collect();
    let expected = [
        "accepted",
        "stage",
        "stage",
        "started",
        "reasoning",
        "reasoning",
        "text",
        "text",
        "text",
        "usage",
        "ended",
    ];
    assert_eq!(names, expected);
    for (position, (id, name, data)) in (0..).zip(&events) {
        assert_eq!((*id, &data["position"], &data["type"]), (position, &json!(position), &json!(name)));
        assert_eq!(data["at"].as_str().map(str::len), Some("2026-01-01T00:00:00.000Z".len()));
    }
    let accepted = &events[0].2;
    assert_eq!((&accepted["promptId"], &accepted["sessionId"]), (&json!(answer.prompt), &json!(session)));
    assert_eq!((&accepted["text"], &accepted["idempotencyKey"]), (&json!("why?"), &json!("k")));
    assert_eq!(events[3].2["provider"], "local");
    let ended = &events[10].2;
    assert_eq!(
        (&ended["outcome"], &ended["cause"], &ended["finishReason"]),
        (&json!("done"), &json!("model"), &json!("stop"))
    );
}

#[tokio::test]
async fn events_resume_after_a_position_byte_for_byte() {
    let server = TestServerBuilder::with_model("fake,tokens=5").start().await;
    let prompt = server.ask(&server.session().await).await.all().await.prompt;
    let path = format!("/api/prompts/{prompt}/events");
    let whole = server.get(&path).await.body().await;
    let count = parse_events(&whole).len() as u64;
    for after in 0..count - 1 {
        let rest = server.get(&format!("{path}?after={after}")).await.body().await;
        assert!(whole.ends_with(&rest));
        assert_eq!(parse_events(&rest)[0].0, after + 1);
    }
    for after in [count - 1, count, 1_000] {
        server.get(&format!("{path}?after={after}")).await.assert_no_content();
    }
    let by_header = server.call(Request::get(&path).header("Last-Event-ID", "2")).await.body().await;
    assert_eq!(parse_events(&by_header)[0].0, 3);
    server.get(&format!("{path}?after=x")).await.error(400, "invalid_request").await;
    server.get("/api/prompts/mine/events").await.error(404, "prompt_not_found").await;
}

#[tokio::test]
async fn a_reader_of_events_does_not_keep_a_prompt_alive() {
    let server = TestServerBuilder::with_model("fake,stall=2").start().await;
    let session = server.session().await;
    let mut stream = server.ask(&session).await;
    stream.tokens(2).await;
    let prompt = stream.prompt();
    let mut events = server.get(&format!("/api/prompts/{prompt}/events")).await;
    assert!(events.chunk().await.unwrap().is_some(), "the reader receives events");
    drop(stream);
    server.settle().await;
    let again = server.try_ask(&question(&session)).await;
    assert_eq!(again.status, 200, "a prompt that is only observed yields");
    let last = parse_events(&events.body().await).pop().unwrap().2;
    assert_eq!((&last["outcome"], &last["cause"]), (&json!("cancelled"), &json!("abandoned")));
}
