//! The state of a prompt, while it runs and after its end.

use serde_json::json;
use uuid::Uuid;

use crate::support::builder::{ProviderKind, TestServerBuilder};
use crate::support::delta_stream::Encoding;
use crate::support::http::Request;

#[tokio::test]
async fn a_prompt_has_its_text_and_status() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let session = server.session().await;
    let body = json!({"sessionId": session, "prompt": " Why, 🙂?\n", "idempotencyKey": "k"});
    let mut stream = server.stream(Encoding::Ndjson, &body).await;
    stream.tokens(3).await;
    let id = stream.prompt();
    assert_eq!(Uuid::try_parse(&id).unwrap().get_version_num(), 7);
    let mut prompt = server.get_prompt(&id).await;
    let created_at = prompt["createdAt"].take();
    assert_eq!(created_at.as_str().map(str::len), Some("2026-01-01T00:00:00.000Z".len()));
    let expected = json!({
        "promptId": id, "sessionId": session, "text": " Why, 🙂?\n", "idempotencyKey": "k",
        "status": "in-flight", "createdAt": null, "tokenCount": 3,
    });
    assert_eq!(prompt, expected);
    server.cancel(&session, &id).await.assert_no_content();
    let prompt = server.get_prompt(&id).await;
    assert_eq!((&prompt["status"], &prompt["tokenCount"]), (&json!("cancelled"), &json!(3)));
    assert_eq!(prompt["createdAt"], created_at);
}

#[tokio::test]
async fn a_prompt_without_a_key_leaves_the_key_out() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let answer = server.ask(&server.session().await).await.all().await;
    assert_eq!(server.get_prompt(&answer.prompt).await.get("idempotencyKey"), None);
}

#[tokio::test]
async fn an_ended_prompt_has_its_outcome() {
    let builder =
        TestServerBuilder::with_model("fake,tokens=5").provider("bad", ProviderKind::Ollama, "fake,die=2");
    let server = builder.order(&["local"]).start().await;
    let session = server.session().await;
    for (provider, status, tokens) in [("local", "done", 5), ("bad", "error", 2)] {
        let body = json!({"sessionId": session, "prompt": "p", "provider": provider});
        let answer = server.stream(Encoding::Ndjson, &body).await.all().await;
        let prompt = server.get_prompt(&answer.prompt).await;
        assert_eq!((&prompt["status"], &prompt["tokenCount"]), (&json!(status), &json!(tokens)));
    }
}

#[tokio::test]
async fn an_unknown_prompt_is_not_found() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for id in ["0190a0b0-0000-7000-8000-000000000001", "mine", "%FF"] {
        for path in ["", "/stream", "/stream?after=3"] {
            let request = Request::get(format!("/api/generation/prompts/{id}{path}"));
            server.call(request).await.error(404, "prompt_not_found").await;
        }
    }
}
