//! Sessions: what they tell, how long they live, and how they end.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Call;
use crate::deltas::Encoding;
use crate::harness::{Kind, Setup};
use crate::world::{SESSION, World, question, time_passes};

const SECOND: Duration = Duration::from_secs(1);

fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Milliseconds since some day, of a time as the contract writes it.
#[track_caller]
fn millis(time: &Value) -> u64 {
    let time = time.as_str().expect("a time is a text");
    let form: String =
        time.chars().map(|character| if character.is_ascii_digit() { '0' } else { character }).collect();
    assert_eq!(form, "0000-00-00T00:00:00.000Z", "{time}");
    let number = |range: std::ops::Range<usize>| -> u64 { time[range].parse().expect("digits") };
    // The clock of the tests begins on the first of January, so days of one month are enough.
    assert_eq!(&time[..7], "2026-01");
    (((number(8..10) * 24 + number(11..13)) * 60 + number(14..16)) * 60 + number(17..19)) * 1000
        + number(20..23)
}

async fn status_of(world: &World, session: &str) -> Value {
    world.look_at_session(session).await["status"].clone()
}

#[tokio::test]
async fn a_session_starts_with_an_id_and_its_times() {
    let world = Setup::of("fake").start().await;
    let started = world.call(Call::post(SESSION, "{}")).await.json(201).await;
    assert_eq!(fields(&started), ["createdAt", "expiresAt", "sessionId"]);
    let id = started["sessionId"].as_str().unwrap();
    let uuid = Uuid::try_parse(id).unwrap();
    assert_eq!((uuid.get_version_num(), uuid.hyphenated().to_string().as_str()), (7, id));
    assert_eq!(millis(&started["expiresAt"]) - millis(&started["createdAt"]), 3_600_000);
}

#[tokio::test]
async fn a_session_needs_nothing_and_ignores_what_it_does_not_know() {
    let world = Setup::of("fake").start().await;
    for body in ["", "  \n", "{}", r#"{"owner":null,"context":null}"#, r#"{"colour":["blue"],"context":{}}"#]
    {
        let started = world.call(Call::post(SESSION, body)).await.json(201).await;
        let session = world.look_at_session(started["sessionId"].as_str().unwrap()).await;
        assert_eq!((session.get("owner"), session.get("context")), (None, None), "{body}: {session}");
    }
    let without_body = world.call(Call::new("POST", SESSION)).await;
    without_body.json(201).await;
}

#[tokio::test]
async fn a_session_tells_what_it_was_given_and_what_it_did() {
    let world = Setup::of("fake,tokens=7").start().await;
    let given = json!({"owner": "acme/wiki", "context": {"environment": "dev", "ünï": "🙂"}});
    let id = world.session_with(&given).await;
    let session = world.look_at_session(&id).await;
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
        world.ask(&id).await.all().await;
        let session = world.look_at_session(&id).await;
        assert_eq!(session["promptCount"], prompts);
        assert_eq!(session["tokenCount"], prompts * 7);
        assert_eq!(session["status"], "active");
    }
}

#[tokio::test]
async fn an_id_may_be_any_form_of_a_uuid() {
    let world = Setup::of("fake").start().await;
    let id = world.session().await;
    for form in [id.to_uppercase(), id.replace('-', "")] {
        assert_eq!(world.look_at_session(&form).await["sessionId"], id);
        assert_eq!(world.ask(&form).await.header("x-session-id"), id);
    }
}

#[tokio::test]
async fn an_id_that_is_unknown_or_no_uuid_is_not_found() {
    let world = Setup::of("fake").start().await;
    for id in ["0190a0b0-0000-7000-8000-000000000001", "mine", "5", "%20", "%FF", "a%2Fb"] {
        let path = format!("/api/generation/session/{id}");
        world.get(&path).await.refusal(404, "session_not_found").await;
        world.call(Call::delete(&path)).await.refusal(404, "session_not_found").await;
    }
}

#[tokio::test]
async fn a_session_that_was_ended_is_completed_and_its_history_stays() {
    let world = Setup::of("fake").start().await;
    let id = world.session().await;
    let answer = world.ask(&id).await.all().await;
    for _ in 0..2 {
        world.end_session(&id).await.no_content();
        assert_eq!(status_of(&world, &id).await, "completed");
    }
    assert_eq!(world.look_at_prompt(&answer.prompt).await["status"], "done");
    let again = world.resume(Encoding::Ndjson, &answer.prompt, None).await.all().await;
    assert_eq!(again.bytes, answer.bytes);
    world.try_ask(&question(&id)).await.refusal(400, "session_not_found").await;
}

#[tokio::test]
async fn ending_a_session_cancels_its_running_prompt() {
    let world = Setup::of("fake,stall=3").start().await;
    let id = world.session().await;
    let mut stream = world.ask(&id).await;
    stream.tokens(3).await;
    world.end_session(&id).await.no_content();
    let last = stream.rest().await;
    assert_eq!(last.len(), 1, "{last:?}");
    assert_eq!(last[0]["metadata"]["finishReason"], "cancelled");
    assert_eq!(status_of(&world, &id).await, "cancelled");
    assert_eq!(world.look_at_prompt(&stream.prompt()).await["status"], "cancelled");
    world.until_calls_ended().await;
    world.end_session(&id).await.no_content();
    assert_eq!(status_of(&world, &id).await, "cancelled");
}

#[tokio::test]
async fn a_session_that_is_idle_too_long_is_completed() {
    let world = Setup::of("fake").start().await;
    let id = world.session().await;
    time_passes(3540 * SECOND).await;
    assert_eq!(status_of(&world, &id).await, "active");
    time_passes(61 * SECOND).await;
    assert_eq!(status_of(&world, &id).await, "completed");
    world.try_ask(&question(&id)).await.refusal(400, "session_not_found").await;
    assert_eq!(status_of(&world, &id).await, "completed");
}

#[tokio::test]
async fn a_running_prompt_keeps_its_session_alive() {
    let setup = Setup::of("fake,stall=3").limits(|limits| {
        limits.idle = 120 * SECOND;
        limits.stall = 3600 * SECOND;
    });
    let world = setup.start().await;
    let id = world.session().await;
    let mut stream = world.ask(&id).await;
    stream.tokens(3).await;
    time_passes(300 * SECOND).await;
    assert_eq!(status_of(&world, &id).await, "active");
    world.cancel(&id, &stream.prompt()).await.no_content();
    time_passes(60 * SECOND).await;
    assert_eq!(status_of(&world, &id).await, "active", "its prompt's end was a minute ago");
    time_passes(61 * SECOND).await;
    assert_eq!(status_of(&world, &id).await, "completed");
}

#[tokio::test]
async fn a_session_is_active_when_a_prompt_is_submitted_resumed_cancelled_and_ended() {
    let setup = Setup::of("fake,stall=3").provider("other", Kind::Ollama, "fake");
    let world = setup.limits(|limits| limits.stall = 3600 * SECOND).start().await;
    let id = world.session().await;
    let mut times = vec![world.look_at_session(&id).await["createdAt"].clone()];
    let mut note = async |what: &str| {
        let session = world.look_at_session(&id).await;
        let last = times.last().expect("there is a first time");
        let passed = millis(&session["lastActiveAt"]) - millis(last);
        assert!(passed >= 5000, "{what}: {passed} ms after the time before");
        assert_eq!(millis(&session["expiresAt"]) - millis(&session["lastActiveAt"]), 3_600_000);
        times.push(session["lastActiveAt"].clone());
    };
    time_passes(5 * SECOND).await;
    let mut stream = world.ask(&id).await;
    stream.tokens(3).await;
    note("submit").await;
    time_passes(5 * SECOND).await;
    let resumed = world.resume(Encoding::Sse, &stream.prompt(), Some(2)).await;
    note("resume").await;
    time_passes(5 * SECOND).await;
    world.cancel(&id, &stream.prompt()).await.no_content();
    note("cancel").await;
    drop((stream, resumed));
    time_passes(5 * SECOND).await;
    let body = json!({"sessionId": id, "prompt": "p", "provider": "other"});
    let answer = world.stream(Encoding::Ndjson, &body).await.all().await;
    note("end").await;
    time_passes(5 * SECOND).await;
    world.resume(Encoding::Ndjson, &answer.prompt, None).await.all().await;
    note("reading what has ended").await;
}
