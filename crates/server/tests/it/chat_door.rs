//! Whatever goes wrong on the chat dialects' paths is told in their shape, also by the door.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader, split};
use tokio::net::TcpStream;

use crate::client::{Answer, Call};
use crate::harness::Setup;
use crate::talk::{CHAT, CHAT_STREAM};
use crate::world::time_passes;

const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

#[tokio::test]
async fn a_body_that_is_no_json_object_is_invalid() {
    let world = Setup::of("fake").start().await;
    for path in [CHAT, CHAT_STREAM] {
        for body in ["", "{", "null", "[]", "\"why?\"", r#"{"query":"why?"} x"#, r#"{"query":"\ud800"}"#] {
            let answer = world.call(Call::post(path, body)).await;
            answer.chat_refusal(422, "validation_error").await;
        }
        let not_text = Call::post(path, b"{\"query\":\"\xff\"}".to_vec());
        world.call(not_text).await.chat_refusal(422, "validation_error").await;
    }
}

#[tokio::test]
async fn what_the_door_refuses_has_the_shape_of_its_path() {
    let world = Setup::of("fake").settings(|settings| settings.body_bytes = 2_000).start().await;
    let large = json!({"query": "why?", "padding": "a".repeat(2_000)});
    for path in [CHAT, CHAT_STREAM] {
        world.call(Call::post_json(path, &large)).await.chat_refusal(413, "body_too_large").await;
        let foreign = Call::post(path, r#"{"query":"why?"}"#).header("Origin", "https://elsewhere.example");
        let foreign = foreign.header("Content-Type", "text/plain");
        world.call(foreign).await.chat_refusal(415, "unsupported_media_type").await;
    }
    for (method, path) in [
        ("GET", CHAT.to_owned()),
        ("DELETE", CHAT_STREAM.to_owned()),
        ("POST", format!("{CHAT_STREAM}/{ID}")),
        ("POST", format!("{CHAT_STREAM}/health")),
        ("DELETE", format!("/conversations/{ID}")),
    ] {
        world.call(Call::new(method, &path)).await.chat_refusal(405, "method_not_allowed").await;
        let elsewhere = Call::new(method, &path).header("Host", "evil.example");
        world.call(elsewhere).await.chat_refusal(421, "misdirected_request").await;
    }
    for path in ["/chat/streams", "/chatter", "/conversations", "/chat/"] {
        world.get(path).await.refusal(404, "not_found").await;
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for_for_ever() {
    let world = Setup::of("fake").start().await;
    for path in [CHAT, CHAT_STREAM] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{{");
        let (reading, mut writing) =
            split(TcpStream::connect(world.address).await.expect("the server listens"));
        writing.write_all(head.as_bytes()).await.expect("the server reads");
        world.settle().await;
        time_passes(Duration::from_secs(301)).await;
        Answer::read(BufReader::new(reading)).await.chat_refusal(408, "request_timeout").await;
    }
}

#[tokio::test]
async fn a_session_in_a_path_is_a_uuid_in_lower_case_with_hyphens() {
    let world = Setup::of("fake").start().await;
    for id in ["mine", &ID.to_uppercase(), &ID.replace('-', ""), "%FF", "%20", &format!("{ID}0")] {
        for path in [format!("/conversations/{id}"), format!("{CHAT_STREAM}/{id}")] {
            world.get(&path).await.chat_refusal(400, "invalid_session_id").await;
        }
    }
    for path in [format!("/conversations/{ID}"), format!("{CHAT_STREAM}/{ID}")] {
        world.get(&path).await.chat_refusal(404, "not_found").await;
    }
}
