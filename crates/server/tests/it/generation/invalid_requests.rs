//! Whatever a client sends, it gets a clear error of the dialect, and never a 5xx.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::builder::TestServerBuilder;
use crate::support::http::{Request, Response};
use crate::support::seeded_random::{SeededRandom, soak};
use crate::support::test_server::{CANCEL, SESSION, STREAM, question};

const UNKNOWN: &str = "0190a0b0-0000-7000-8000-000000000001";

/// Checks a client error whose code is not known.
async fn check_refused(answer: Response, sent: &[u8]) {
    let sent = String::from_utf8_lossy(sent).into_owned();
    let status = answer.status;
    assert!((400..500).contains(&status), "{status} for {sent}");
    let trace = answer.header("x-trace-id").expect("every response has a trace id").to_owned();
    let body = answer.json(status).await;
    assert_eq!(body["traceId"], trace, "{body}");
    assert!(body["code"].is_string() && body["message"].is_string(), "{body}");
}

#[tokio::test]
async fn an_invalid_field_of_a_prompt_is_named() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    for (name, value, named) in [
        ("prompt", json!(""), "empty"),
        ("prompt", json!(" \t\n\u{a0}\u{2003}"), "empty"),
        ("prompt", json!(null), "prompt"),
        ("prompt", json!(5), "prompt"),
        ("sessionId", json!(5), "sessionId"),
        ("sessionId", json!(null), "sessionId"),
        ("topK", json!(0), "topK"),
        ("topK", json!(21), "topK"),
        ("topK", json!(-1), "topK"),
        ("topK", json!(5.5), "topK"),
        ("topK", json!("5"), "topK"),
        ("topK", json!(1e300), "topK"),
        ("topK", json!(true), "topK"),
        ("idempotencyKey", json!(5), "idempotencyKey"),
        ("provider", json!(["local"]), "provider"),
        ("filters", json!("title"), "filters"),
        ("filters", json!([]), "filters"),
        ("filters", json!({"colour": "blue"}), "filters.colour"),
        ("filters", json!({"metadata.": "x"}), "filters.metadata."),
        ("filters", json!({"title": 5}), "filters.title"),
        ("filters", json!({"title": []}), "filters.title"),
        ("filters", json!({"title": ["a", null]}), "filters.title"),
        ("filters", json!({"filePath": "src/["}), "filters.filePath"),
    ] {
        let mut body = question(&session);
        body[name] = value;
        let error = server.try_ask(&body).await.error(400, "invalid_request").await;
        assert!(error["message"].as_str().unwrap().contains(named), "{body}: {error}");
    }
    assert_eq!(server.get_session(&session).await["promptCount"], 0);
    assert_eq!(server.fake.chats(), []);
}

#[tokio::test]
async fn an_unknown_session_is_refused() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for session in [UNKNOWN, "mine", "", "🙂"] {
        server.try_ask(&question(session)).await.error(400, "session_not_found").await;
    }
}

#[tokio::test]
async fn an_invalid_field_of_a_session_is_named() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for (body, named) in [
        (json!({"owner": 5}), "owner"),
        (json!({"context": "dev"}), "context"),
        (json!({"context": {"environment": 5}}), "context.environment"),
        (json!({"context": {"environment": null}}), "context.environment"),
        (json!([]), "object"),
        (json!("{}"), "object"),
        (json!(null), "object"),
    ] {
        let error = server.call(Request::post_json(SESSION, &body)).await.error(400, "invalid_request").await;
        assert!(error["message"].as_str().unwrap().contains(named), "{body}: {error}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let nested = "[".repeat(100_000);
    let deep = format!(r#"{{"sessionId":"{UNKNOWN}","prompt":"p","filters":{{"title":{nested}"#);
    let surrogate = br#"{"prompt":"\ud800"}"#.as_slice();
    let twice = format!(r#"{{"sessionId":"{UNKNOWN}","prompt":"p","prompt":"q"}}"#);
    let trailing = format!(r#"{{"sessionId":"{UNKNOWN}","prompt":"p"}} {{}}"#);
    for body in [
        b"{".as_slice(),
        b"}",
        b"nonsense",
        b"[",
        b"{\"prompt\":",
        surrogate,
        b"{\"prompt\":\"\xff\"}",
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"{'prompt':'p'}",
        b"{\"prompt\":\"a\nb\"}",
        b"prompt=why&sessionId=x",
        deep.as_bytes(),
        nested.as_bytes(),
        twice.as_bytes(),
        trailing.as_bytes(),
    ] {
        for path in [STREAM, SESSION, CANCEL] {
            // A session has no `prompt` field and ignores unknown ones.
            if path == SESSION && [twice.as_bytes(), surrogate].contains(&body) {
                continue;
            }
            server.call(Request::post(path, body)).await.error(400, "invalid_request").await;
        }
    }
    for path in [STREAM, CANCEL] {
        server.call(Request::post(path, "")).await.error(400, "invalid_request").await;
        server.call(Request::new("POST", path)).await.error(400, "invalid_request").await;
    }
}

#[tokio::test]
async fn any_type_of_value_in_any_field_gets_a_client_error() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1e308),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}"),
        json!("x".repeat(10_000)),
        json!([]),
        json!([[[]]]),
        json!({}),
        json!({"a": {"b": null}}),
    ];
    let valid = [
        (
            STREAM,
            json!({"sessionId": UNKNOWN, "prompt": "p", "idempotencyKey": "k", "topK": 5, "filters": {}, "provider": "local"}),
        ),
        (CANCEL, json!({"sessionId": UNKNOWN, "promptId": UNKNOWN, "reason": "timeout"})),
    ];
    for (path, body) in valid {
        for name in body.as_object().unwrap().keys() {
            for value in &values {
                let mut body: Value = body.clone();
                body[name] = value.clone();
                let sent = body.to_string();
                check_refused(server.call(Request::post(path, sent.clone())).await, sent.as_bytes()).await;
            }
        }
    }
}

#[tokio::test]
async fn randomly_mutated_bodies_get_a_client_error() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let valid = [
        (
            STREAM,
            json!({"sessionId": UNKNOWN, "prompt": "why?", "topK": 5, "filters": {"title": ["a", "é"]}}),
        ),
        (CANCEL, json!({"sessionId": UNKNOWN, "promptId": UNKNOWN, "reason": "timeout"})),
    ];
    let mut random = SeededRandom::new(7);
    for _ in 0..soak(300, 20_000) {
        let (path, body) = &valid[random.below(2)];
        let mut body = body.to_string().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(body.len());
            match random.below(4) {
                0 => drop(body.remove(at)),
                1 => body.insert(at, b"{}[]\",:\\0\xff"[random.below(10)]),
                2 => body[at] = u8::try_from(random.below(256)).expect("a byte"),
                _ => body.truncate(at + 1),
            }
        }
        check_refused(server.call(Request::post(*path, body.clone())).await, &body).await;
    }
}

#[tokio::test]
async fn a_truncated_request_does_not_affect_others() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    for request in [
        format!("POST {STREAM} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{"),
        format!("POST {STREAM} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{{"),
        format!("POST {STREAM} HTTP/1.1\r\nHost: localhost\r\n"),
    ] {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
    }
    server.ask(&session).await.all().await.done("stop");
}
