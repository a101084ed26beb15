//! Sessions: their fields, their expiry, and their end.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::builder::{ProviderKind, TestServerBuilder};
use crate::support::delta_stream::Encoding;
use crate::support::http::Request;
use crate::support::test_server::{SESSION, TestServer, advance_time, question};

const SECOND: Duration = Duration::from_secs(1);

fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A time in the contract's format, in milliseconds since some day.
#[track_caller]
fn millis(time: &Value) -> u64 {
    let time = time.as_str().expect("a time is a text");
    let form: String =
        time.chars().map(|character| if character.is_ascii_digit() { '0' } else { character }).collect();
    assert_eq!(form, "0000-00-00T00:00:00.000Z", "{time}");
    let number = |range: std::ops::Range<usize>| -> u64 { time[range].parse().expect("digits") };
    // The clock of the tests starts on the first of January, so days of one month suffice.
    assert_eq!(&time[..7], "2026-01");
    (((number(8..10) * 24 + number(11..13)) * 60 + number(14..16)) * 60 + number(17..19)) * 1000
        + number(20..23)
}

async fn status_of(server: &TestServer, session: &str) -> Value {
    server.get_session(session).await["status"].clone()
}

#[tokio::test]
async fn a_session_starts_with_an_id_and_its_times() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let started = server.call(Request::post(SESSION, "{}")).await.json(201).await;
    assert_eq!(fields(&started), ["createdAt", "expiresAt", "sessionId"]);
    let id = started["sessionId"].as_str().unwrap();
    let uuid = Uuid::try_parse(id).unwrap();
    assert_eq!((uuid.get_version_num(), uuid.hyphenated().to_string().as_str()), (7, id));
    assert_eq!(millis(&started["expiresAt"]) - millis(&started["createdAt"]), 3_600_000);
}

#[tokio::test]
async fn a_session_needs_no_fields_and_ignores_unknown_ones() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for body in ["", "  \n", "{}", r#"{"owner":null,"context":null}"#, r#"{"colour":["blue"],"context":{}}"#]
    {
        let started = server.call(Request::post(SESSION, body)).await.json(201).await;
        let session = server.get_session(started["sessionId"].as_str().unwrap()).await;
        assert_eq!((session.get("owner"), session.get("context")), (None, None), "{body}: {session}");
    }
    let without_body = server.call(Request::new("POST", SESSION)).await;
    without_body.json(201).await;
}

#[tokio::test]
async fn a_session_has_its_fields_and_its_counts() {
    let server = TestServerBuilder::with_model("fake,tokens=7").start().await;
    let given = json!({"owner": "acme/wiki", "context": {"environment": "dev", "ünï": "🙂"}});
    let id = server.session_with(&given).await;
    let session = server.get_session(&id).await;
    assert_eq!(
        fields(&session),
        [
            "context",
            "createdAt",
            "expiresAt",
            "lastActiveAt",
            "owner",
            "promptCount",
            "sessionId",
            "status",
            "tokenCount"
        ]
    );
    assert_eq!((&session["owner"], &session["context"]), (&given["owner"], &given["context"]));
    assert_eq!((&session["sessionId"], &session["status"]), (&json!(id), &json!("active")));
    assert_eq!((&session["promptCount"], &session["tokenCount"]), (&json!(0), &json!(0)));
    for prompts in 1..=2 {
        server.ask(&id).await.all().await;
        let session = server.get_session(&id).await;
        assert_eq!(session["promptCount"], prompts);
        assert_eq!(session["tokenCount"], prompts * 7);
        assert_eq!(session["status"], "active");
    }
}

#[tokio::test]
async fn an_id_may_be_any_form_of_a_uuid() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let id = server.session().await;
    for form in [id.to_uppercase(), id.replace('-', "")] {
        assert_eq!(server.get_session(&form).await["sessionId"], id);
        assert_eq!(server.ask(&form).await.header("x-session-id"), id);
    }
}

#[tokio::test]
async fn an_unknown_session_is_not_found() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for id in ["0190a0b0-0000-7000-8000-000000000001", "mine", "5", "%20", "%FF", "a%2Fb"] {
        let path = format!("/api/generation/session/{id}");
        server.get(&path).await.error(404, "session_not_found").await;
        server.call(Request::delete(&path)).await.error(404, "session_not_found").await;
    }
}

#[tokio::test]
async fn an_ended_session_is_completed_and_keeps_its_history() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let id = server.session().await;
    let answer = server.ask(&id).await.all().await;
    for _ in 0..2 {
        server.end_session(&id).await.assert_no_content();
        assert_eq!(status_of(&server, &id).await, "completed");
    }
    assert_eq!(server.get_prompt(&answer.prompt).await["status"], "done");
    let again = server.resume(Encoding::Ndjson, &answer.prompt, None).await.all().await;
    assert_eq!(again.bytes, answer.bytes);
    server.try_ask(&question(&id)).await.error(400, "session_not_found").await;
}

#[tokio::test]
async fn ending_a_session_cancels_its_running_prompt() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let id = server.session().await;
    let mut stream = server.ask(&id).await;
    stream.tokens(3).await;
    server.end_session(&id).await.assert_no_content();
    let last = stream.rest().await;
    assert_eq!(last.len(), 1, "{last:?}");
    assert_eq!(last[0]["metadata"]["finishReason"], "cancelled");
    assert_eq!(status_of(&server, &id).await, "cancelled");
    assert_eq!(server.get_prompt(&stream.prompt()).await["status"], "cancelled");
    server.wait_for_model_calls().await;
    server.end_session(&id).await.assert_no_content();
    assert_eq!(status_of(&server, &id).await, "cancelled");
}

#[tokio::test]
async fn an_idle_session_expires() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let id = server.session().await;
    advance_time(3540 * SECOND).await;
    assert_eq!(status_of(&server, &id).await, "active");
    advance_time(61 * SECOND).await;
    assert_eq!(status_of(&server, &id).await, "completed");
    server.try_ask(&question(&id)).await.error(400, "session_not_found").await;
    assert_eq!(status_of(&server, &id).await, "completed");
}

#[tokio::test]
async fn a_running_prompt_keeps_its_session_alive() {
    let builder = TestServerBuilder::with_model("fake,stall=3").limits(|limits| {
        limits.idle = 120 * SECOND;
        limits.stall = 3600 * SECOND;
    });
    let server = builder.start().await;
    let id = server.session().await;
    let mut stream = server.ask(&id).await;
    stream.tokens(3).await;
    advance_time(300 * SECOND).await;
    assert_eq!(status_of(&server, &id).await, "active");
    server.cancel(&id, &stream.prompt()).await.assert_no_content();
    advance_time(60 * SECOND).await;
    assert_eq!(status_of(&server, &id).await, "active", "its prompt ended a minute ago");
    advance_time(61 * SECOND).await;
    assert_eq!(status_of(&server, &id).await, "completed");
}

#[tokio::test]
async fn a_session_is_active_when_a_prompt_is_submitted_resumed_cancelled_and_ended() {
    let builder =
        TestServerBuilder::with_model("fake,stall=3").provider("other", ProviderKind::Ollama, "fake");
    let server = builder.limits(|limits| limits.stall = 3600 * SECOND).start().await;
    let id = server.session().await;
    let mut times = vec![server.get_session(&id).await["createdAt"].clone()];
    let mut check_active = async |what: &str| {
        let session = server.get_session(&id).await;
        let last = times.last().expect("there is a first time");
        let passed = millis(&session["lastActiveAt"]) - millis(last);
        assert!(passed >= 5000, "{what}: {passed} ms after the time before");
        assert_eq!(millis(&session["expiresAt"]) - millis(&session["lastActiveAt"]), 3_600_000);
        times.push(session["lastActiveAt"].clone());
    };
    advance_time(5 * SECOND).await;
    let mut stream = server.ask(&id).await;
    stream.tokens(3).await;
    check_active("submit").await;
    advance_time(5 * SECOND).await;
    let resumed = server.resume(Encoding::Sse, &stream.prompt(), Some(2)).await;
    check_active("resume").await;
    advance_time(5 * SECOND).await;
    server.cancel(&id, &stream.prompt()).await.assert_no_content();
    check_active("cancel").await;
    drop((stream, resumed));
    advance_time(5 * SECOND).await;
    let body = json!({"sessionId": id, "prompt": "p", "provider": "other"});
    let answer = server.stream(Encoding::Ndjson, &body).await.all().await;
    check_active("end").await;
    advance_time(5 * SECOND).await;
    server.resume(Encoding::Ndjson, &answer.prompt, None).await.all().await;
    check_active("reading what has ended").await;
}
