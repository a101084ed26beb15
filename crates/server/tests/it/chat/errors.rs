//! Errors on the paths of the chat dialects have their shape, also those of middleware.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader, split};
use tokio::net::TcpStream;

use crate::support::builder::TestServerBuilder;
use crate::support::chat_client::{CHAT, CHAT_STREAM};
use crate::support::http::{Request, Response};
use crate::support::test_server::advance_time;

const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

#[tokio::test]
async fn a_body_that_is_not_a_json_object_is_invalid() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for path in [CHAT, CHAT_STREAM] {
        for body in ["", "{", "null", "[]", "\"why?\"", r#"{"query":"why?"} x"#, r#"{"query":"\ud800"}"#] {
            let answer = server.call(Request::post(path, body)).await;
            answer.chat_error(422, "validation_error").await;
        }
        let not_text = Request::post(path, b"{\"query\":\"\xff\"}".to_vec());
        server.call(not_text).await.chat_error(422, "validation_error").await;
    }
}

#[tokio::test]
async fn errors_of_middleware_have_the_dialect_of_their_path() {
    let server =
        TestServerBuilder::with_model("fake").settings(|settings| settings.body_bytes = 2_000).start().await;
    let large = json!({"query": "why?", "padding": "a".repeat(2_000)});
    for path in [CHAT, CHAT_STREAM] {
        server.call(Request::post_json(path, &large)).await.chat_error(413, "body_too_large").await;
        let foreign =
            Request::post(path, r#"{"query":"why?"}"#).header("Origin", "https://elsewhere.example");
        let foreign = foreign.header("Content-Type", "text/plain");
        server.call(foreign).await.chat_error(415, "unsupported_media_type").await;
    }
    for (method, path) in [
        ("GET", CHAT.to_owned()),
        ("DELETE", CHAT_STREAM.to_owned()),
        ("POST", format!("{CHAT_STREAM}/{ID}")),
        ("POST", format!("{CHAT_STREAM}/health")),
        ("DELETE", format!("/conversations/{ID}")),
    ] {
        server.call(Request::new(method, &path)).await.chat_error(405, "method_not_allowed").await;
        let elsewhere = Request::new(method, &path).header("Host", "evil.example");
        server.call(elsewhere).await.chat_error(421, "misdirected_request").await;
    }
    for path in ["/chat/streams", "/chatter", "/conversations", "/chat/"] {
        server.get(path).await.error(404, "not_found").await;
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_times_out() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for path in [CHAT, CHAT_STREAM] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{{");
        let (reading, mut writing) =
            split(TcpStream::connect(server.address).await.expect("the server listens"));
        writing.write_all(head.as_bytes()).await.expect("the server reads");
        server.settle().await;
        advance_time(Duration::from_secs(301)).await;
        Response::read(BufReader::new(reading)).await.chat_error(408, "request_timeout").await;
    }
}

#[tokio::test]
async fn a_session_in_a_path_is_a_uuid_in_lower_case_with_hyphens() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for id in ["mine", &ID.to_uppercase(), &ID.replace('-', ""), "%FF", "%20", &format!("{ID}0")] {
        for path in [format!("/conversations/{id}"), format!("{CHAT_STREAM}/{id}")] {
            server.get(&path).await.chat_error(400, "invalid_session_id").await;
        }
    }
    for path in [format!("/conversations/{ID}"), format!("{CHAT_STREAM}/{ID}")] {
        server.get(&path).await.chat_error(404, "not_found").await;
    }
}
