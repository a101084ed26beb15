//! Section 7's lists and the events of a prompt.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use serde_json::{Value, json};

use crate::client::Call;
use crate::deltas::Encoding;
use crate::harness::Setup;
use crate::world::{World, question};

async fn sessions(world: &World, query: &str) -> Value {
    world.get(&format!("/api/sessions{query}")).await.json(200).await
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
    let world = Setup::of("fake,tokens=3").start().await;
    let mut made = Vec::new();
    for n in 0..5 {
        let session = world.session_with(&json!({"owner": format!("team{n}")})).await;
        let body = json!({"sessionId": session, "prompt": format!("question {n}")});
        world.stream(Encoding::Ndjson, &body).await.all().await;
        made.push(session);
    }
    made.reverse();
    let first = sessions(&world, "?limit=2").await;
    assert_eq!(ids(&first), made[..2]);
    let newest = &first["sessions"][0];
    assert_eq!((&newest["owner"], &newest["title"]), (&json!("team4"), &json!("question 4")));
    assert_eq!((&newest["promptCount"], &newest["tokenCount"]), (&json!(1), &json!(3)));
    assert_eq!(newest["status"], "active");
    assert!(newest["createdAt"].is_string() && newest["lastActiveAt"].is_string());
    let second = sessions(&world, &format!("?limit=2&before={}", first["next"].as_str().unwrap())).await;
    assert_eq!(ids(&second), made[2..4]);
    let third = sessions(&world, &format!("?limit=2&before={}", second["next"].as_str().unwrap())).await;
    assert_eq!(ids(&third), made[4..]);
    assert_eq!(third.get("next"), None);
    assert_eq!(ids(&sessions(&world, "").await), made);
}

#[tokio::test]
async fn a_session_without_a_question_has_no_title() {
    let world = Setup::of("fake").start().await;
    world.session().await;
    let list = sessions(&world, "").await;
    assert_eq!((list["sessions"][0].get("title"), list["sessions"][0].get("owner")), (None, None));
}

#[tokio::test]
async fn a_bad_page_is_refused() {
    let world = Setup::of("fake").start().await;
    for query in ["?limit=0", "?limit=101", "?limit=x", "?before=x"] {
        world.get(&format!("/api/sessions{query}")).await.refusal(400, "invalid_request").await;
    }
    world.get("/api/prompts?status=odd").await.refusal(400, "invalid_request").await;
}

#[tokio::test]
async fn the_prompts_of_a_session_are_in_the_order_they_were_asked() {
    let world = Setup::of("fake,tokens=2").start().await;
    let session = world.session().await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(world.ask(&session).await.all().await.prompt);
    }
    let other = world.session().await;
    world.ask(&other).await.all().await;
    let list = world.get(&format!("/api/sessions/{session}/prompts")).await.json(200).await;
    let listed: Vec<_> = list["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["promptId"].as_str().unwrap())
        .collect();
    assert_eq!(listed, asked);
    assert_eq!(
        list["prompts"][0],
        world.look_at_prompt(&asked[0]).await,
        "the prompt of the generation dialect"
    );
    for unknown in ["0190a0b0-0000-7000-8000-000000000001", "mine", "%FF"] {
        world.get(&format!("/api/sessions/{unknown}/prompts")).await.refusal(404, "session_not_found").await;
    }
}

#[tokio::test]
async fn running_and_recent_prompts_are_listed_by_status() {
    let setup = Setup::of("fake,stall=2").provider("good", crate::harness::Kind::Ollama, "fake,tokens=2");
    let world = setup.order(&["local"]).start().await;
    let done = json!({"sessionId": world.session().await, "prompt": "p", "provider": "good"});
    let done = world.stream(Encoding::Ndjson, &done).await.all().await.prompt;
    let mut running = world.ask(&world.session().await).await;
    running.tokens(2).await;
    let list = async |query: &str| {
        let list = world.get(&format!("/api/prompts{query}")).await.json(200).await;
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
    let world = Setup::of("fake,stall=2").start().await;
    let session = world.session().await;
    let mut running = world.ask(&session).await;
    running.tokens(2).await;
    let prompt = running.prompt();
    world.call(Call::delete(format!("/api/sessions/{session}"))).await.no_content();
    assert_eq!(running.rest().await.last().unwrap()["metadata"]["cancelled"], true, "what ran was cancelled");
    world.get(&format!("/api/generation/session/{session}")).await.refusal(404, "session_not_found").await;
    world.get(&format!("/api/generation/prompts/{prompt}")).await.refusal(404, "prompt_not_found").await;
    world.try_ask(&question(&session)).await.refusal(400, "session_not_found").await;
    assert_eq!(sessions(&world, "").await, json!({"sessions": []}));
    for unknown in [session.as_str(), "mine", "%FF"] {
        world
            .call(Call::delete(format!("/api/sessions/{unknown}")))
            .await
            .refusal(404, "session_not_found")
            .await;
    }
}

#[tokio::test]
async fn every_event_of_a_prompt_can_be_read() {
    let world = Setup::of("fake,tokens=3,reasoning=2").start().await;
    let session = world.session().await;
    let body = json!({"sessionId": session, "prompt": "why?", "idempotencyKey": "k"});
    let answer = world.stream(Encoding::Ndjson, &body).await.all().await;
    let events = world.get(&format!("/api/prompts/{}/events", answer.prompt)).await;
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
async fn events_are_resumed_behind_a_position_and_byte_equal() {
    let world = Setup::of("fake,tokens=5").start().await;
    let prompt = world.ask(&world.session().await).await.all().await.prompt;
    let path = format!("/api/prompts/{prompt}/events");
    let whole = world.get(&path).await.body().await;
    let count = parse_events(&whole).len() as u64;
    for after in 0..count - 1 {
        let rest = world.get(&format!("{path}?after={after}")).await.body().await;
        assert!(whole.ends_with(&rest));
        assert_eq!(parse_events(&rest)[0].0, after + 1);
    }
    for after in [count - 1, count, 1_000] {
        world.get(&format!("{path}?after={after}")).await.no_content();
    }
    let by_header = world.call(Call::get(&path).header("Last-Event-ID", "2")).await.body().await;
    assert_eq!(parse_events(&by_header)[0].0, 3);
    world.get(&format!("{path}?after=x")).await.refusal(400, "invalid_request").await;
    world.get("/api/prompts/mine/events").await.refusal(404, "prompt_not_found").await;
}

#[tokio::test]
async fn whoever_looks_on_does_not_keep_a_prompt_alive() {
    let world = Setup::of("fake,stall=2").start().await;
    let session = world.session().await;
    let mut stream = world.ask(&session).await;
    stream.tokens(2).await;
    let prompt = stream.prompt();
    let mut events = world.get(&format!("/api/prompts/{prompt}/events")).await;
    assert!(events.chunk().await.unwrap().is_some(), "it looks on");
    drop(stream);
    world.settle().await;
    let again = world.try_ask(&question(&session)).await;
    assert_eq!(again.status, 200, "the prompt that nobody but the observer read has yielded");
    let last = parse_events(&events.body().await).pop().unwrap().2;
    assert_eq!((&last["outcome"], &last["cause"]), (&json!("cancelled"), &json!("abandoned")));
}
