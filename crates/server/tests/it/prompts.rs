//! A prompt as it stands, while it runs and after its end.

use serde_json::json;
use uuid::Uuid;

use crate::client::Call;
use crate::deltas::Encoding;
use crate::harness::{Kind, Setup};

#[tokio::test]
async fn a_prompt_tells_what_was_asked_and_where_it_stands() {
    let world = Setup::of("fake,stall=3").start().await;
    let session = world.session().await;
    let body = json!({"sessionId": session, "prompt": " Why, 🙂?\n", "idempotencyKey": "k"});
    let mut stream = world.stream(Encoding::Ndjson, &body).await;
    stream.tokens(3).await;
    let id = stream.prompt();
    assert_eq!(Uuid::try_parse(&id).unwrap().get_version_num(), 7);
    let mut prompt = world.look_at_prompt(&id).await;
    let created_at = prompt["createdAt"].take();
    assert_eq!(created_at.as_str().map(str::len), Some("2026-01-01T00:00:00.000Z".len()));
    let expected = json!({
        "promptId": id, "sessionId": session, "text": " Why, 🙂?\n", "idempotencyKey": "k",
        "status": "in-flight", "createdAt": null, "tokenCount": 3,
    });
    assert_eq!(prompt, expected);
    world.cancel(&session, &id).await.no_content();
    let prompt = world.look_at_prompt(&id).await;
    assert_eq!((&prompt["status"], &prompt["tokenCount"]), (&json!("cancelled"), &json!(3)));
    assert_eq!(prompt["createdAt"], created_at);
}

#[tokio::test]
async fn a_prompt_without_a_key_leaves_the_key_out() {
    let world = Setup::of("fake").start().await;
    let answer = world.ask(&world.session().await).await.all().await;
    assert_eq!(world.look_at_prompt(&answer.prompt).await.get("idempotencyKey"), None);
}

#[tokio::test]
async fn a_prompt_that_ended_says_how() {
    let setup = Setup::of("fake,tokens=5").provider("bad", Kind::Ollama, "fake,die=2");
    let world = setup.order(&["local"]).start().await;
    let session = world.session().await;
    for (provider, status, tokens) in [("local", "done", 5), ("bad", "error", 2)] {
        let body = json!({"sessionId": session, "prompt": "p", "provider": provider});
        let answer = world.stream(Encoding::Ndjson, &body).await.all().await;
        let prompt = world.look_at_prompt(&answer.prompt).await;
        assert_eq!((&prompt["status"], &prompt["tokenCount"]), (&json!(status), &json!(tokens)));
    }
}

#[tokio::test]
async fn a_prompt_that_is_unknown_or_no_uuid_is_not_found() {
    let world = Setup::of("fake").start().await;
    for id in ["0190a0b0-0000-7000-8000-000000000001", "mine", "%FF"] {
        for path in ["", "/stream", "/stream?after=3"] {
            let call = Call::get(format!("/api/generation/prompts/{id}{path}"));
            world.call(call).await.refusal(404, "prompt_not_found").await;
        }
    }
}
