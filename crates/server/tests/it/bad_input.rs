//! Whatever a client sends, it gets a clear refusal in the dialect's shape, and never a 5xx.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{Answer, Call};
use crate::dice::{Dice, soak};
use crate::harness::Setup;
use crate::world::{CANCEL, SESSION, STREAM, question};

const UNKNOWN: &str = "0190a0b0-0000-7000-8000-000000000001";

/// Checks a refusal of which only the family is known.
async fn check_refused(answer: Answer, sent: &[u8]) {
    let sent = String::from_utf8_lossy(sent).into_owned();
    let status = answer.status;
    assert!((400..500).contains(&status), "{status} for {sent}");
    let trace = answer.header("x-trace-id").expect("every answer has a trace id").to_owned();
    let body = answer.json(status).await;
    assert_eq!(body["traceId"], trace, "{body}");
    assert!(body["code"].is_string() && body["message"].is_string(), "{body}");
}

#[tokio::test]
async fn what_is_wrong_with_a_question_is_named() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
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
        let refusal = world.try_ask(&body).await.refusal(400, "invalid_request").await;
        assert!(refusal["message"].as_str().unwrap().contains(named), "{body}: {refusal}");
    }
    assert_eq!(world.look_at_session(&session).await["promptCount"], 0);
    assert_eq!(world.fake.chats(), []);
}

#[tokio::test]
async fn a_session_that_is_unknown_takes_no_question() {
    let world = Setup::of("fake").start().await;
    for session in [UNKNOWN, "mine", "", "🙂"] {
        world.try_ask(&question(session)).await.refusal(400, "session_not_found").await;
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_session_is_named() {
    let world = Setup::of("fake").start().await;
    for (body, named) in [
        (json!({"owner": 5}), "owner"),
        (json!({"context": "dev"}), "context"),
        (json!({"context": {"environment": 5}}), "context.environment"),
        (json!({"context": {"environment": null}}), "context.environment"),
        (json!([]), "object"),
        (json!("{}"), "object"),
        (json!(null), "object"),
    ] {
        let refusal = world.call(Call::post_json(SESSION, &body)).await.refusal(400, "invalid_request").await;
        assert!(refusal["message"].as_str().unwrap().contains(named), "{body}: {refusal}");
    }
}

#[tokio::test]
async fn what_is_no_json_is_refused() {
    let world = Setup::of("fake").start().await;
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
            // A session has no prompt, and what it does not know it ignores.
            if path == SESSION && [twice.as_bytes(), surrogate].contains(&body) {
                continue;
            }
            world.call(Call::post(path, body)).await.refusal(400, "invalid_request").await;
        }
    }
    for path in [STREAM, CANCEL] {
        world.call(Call::post(path, "")).await.refusal(400, "invalid_request").await;
        world.call(Call::new("POST", path)).await.refusal(400, "invalid_request").await;
    }
}

#[tokio::test]
async fn every_field_with_every_kind_of_value_is_taken_or_refused() {
    let world = Setup::of("fake").start().await;
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
                check_refused(world.call(Call::post(path, sent.clone())).await, sent.as_bytes()).await;
            }
        }
    }
}

#[tokio::test]
async fn bytes_that_were_changed_at_random_are_refused() {
    let world = Setup::of("fake").start().await;
    let valid = [
        (
            STREAM,
            json!({"sessionId": UNKNOWN, "prompt": "why?", "topK": 5, "filters": {"title": ["a", "é"]}}),
        ),
        (CANCEL, json!({"sessionId": UNKNOWN, "promptId": UNKNOWN, "reason": "timeout"})),
    ];
    let mut dice = Dice::new(7);
    for _ in 0..soak(300, 20_000) {
        let (path, body) = &valid[dice.below(2)];
        let mut body = body.to_string().into_bytes();
        for _ in 0..=dice.below(3) {
            let at = dice.below(body.len());
            match dice.below(4) {
                0 => drop(body.remove(at)),
                1 => body.insert(at, b"{}[]\",:\\0\xff"[dice.below(10)]),
                2 => body[at] = u8::try_from(dice.below(256)).expect("a byte"),
                _ => body.truncate(at + 1),
            }
        }
        check_refused(world.call(Call::post(*path, body.clone())).await, &body).await;
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_harms_nobody() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
    for request in [
        format!("POST {STREAM} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{"),
        format!("POST {STREAM} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{{"),
        format!("POST {STREAM} HTTP/1.1\r\nHost: localhost\r\n"),
    ] {
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
    }
    world.ask(&session).await.all().await.done("stop");
}
