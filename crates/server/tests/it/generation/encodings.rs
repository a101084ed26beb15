//! The two encodings: which one a client gets, and that both carry the same deltas.

use serde_json::json;

use crate::support::builder::TestServerBuilder;
use crate::support::delta_contract::schema;
use crate::support::delta_stream::{DeltaStream, Encoding, parse};
use crate::support::http::Request;
use crate::support::test_server::{STREAM, TestServer, question};

#[tokio::test]
async fn the_accept_header_chooses_the_encoding() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    for (accept, encoding) in [
        (None, Encoding::Ndjson),
        (Some(""), Encoding::Ndjson),
        (Some("*/*"), Encoding::Ndjson),
        (Some("application/json"), Encoding::Ndjson),
        (Some("application/x-ndjson"), Encoding::Ndjson),
        (Some("text/event-stream"), Encoding::Sse),
        (Some("Text/Event-Stream; charset=utf-8"), Encoding::Sse),
        (Some("text/event-stream, */*"), Encoding::Sse),
        (Some("application/x-ndjson;q=0.5, text/event-stream"), Encoding::Sse),
        (Some("application/x-ndjson, text/event-stream;q=0.5"), Encoding::Ndjson),
    ] {
        let mut request = Request::post_json(STREAM, &question(&session));
        if let Some(accept) = accept {
            request = request.header("Accept", accept);
        }
        let answer = DeltaStream::new(server.call(request).await, encoding).await.all().await;
        let mut request = Request::get(format!("/api/generation/prompts/{}/stream", answer.prompt));
        if let Some(accept) = accept {
            request = request.header("Accept", accept);
        }
        let again = DeltaStream::new(server.call(request).await, encoding).await.all().await;
        assert_eq!(again.bytes, answer.bytes, "{accept:?}");
    }
}

/// Reads one prompt in both encodings at once, while it runs, and again after its end.
async fn check_both(server: &TestServer, act: impl AsyncFnOnce(&str, &str)) {
    let session = server.session().await;
    let body = json!({"sessionId": session, "prompt": "why?", "idempotencyKey": "k"});
    let lines = server.stream(Encoding::Ndjson, &body).await;
    let prompt = lines.prompt();
    // By its id: a prompt that has failed meanwhile may be asked anew under its key.
    let events = server.resume(Encoding::Sse, &prompt, None).await;
    act(&session, &prompt).await;
    let (lines, events) = futures::join!(lines.all(), events.all());
    assert_eq!(lines.deltas, events.deltas);
    for (encoding, first) in [(Encoding::Ndjson, &lines), (Encoding::Sse, &events)] {
        let again = server.resume(encoding, &prompt, None).await.all().await;
        assert_eq!(again.bytes, first.bytes);
        assert_eq!(parse(encoding, &again.bytes), lines.deltas);
    }
}

#[tokio::test]
async fn both_encodings_carry_equal_deltas() {
    for model in [
        "fake,tokens=20,pace=2ms",
        "fake,tokens=20,pace=2ms,reasoning=5",
        "fake,tokens=20,pace=2ms,split",
        "fake,tokens=20,length",
        "fake,tool=search",
        "fake,pace=2ms,die=8",
        "fake,pace=2ms,error=8",
        "fake,status=429,retry-after=7",
        "fake,empty",
    ] {
        let server = TestServerBuilder::with_model(model).start().await;
        check_both(&server, async |_, _| {}).await;
    }
}

#[tokio::test]
async fn both_encodings_carry_an_equal_cancel() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    check_both(&server, async |session, prompt| {
        server.fake.wait_until(|seen| seen.iter().any(|seen| seen.tokens == 3)).await;
        server.cancel(session, prompt).await.assert_no_content();
    })
    .await;
}

#[test]
fn the_schema_rejects_invalid_deltas() {
    let delta = json!({
        "promptId": "0190a0b0-0000-7000-8000-000000000001", "type": "token", "seq": 0, "text": "a", "role": "assistant",
    });
    assert!(schema().is_valid(&delta));
    for (field, wrong) in [
        ("promptId", json!("abc-123")),
        ("type", json!("text")),
        ("seq", json!(-1)),
        ("seq", json!("0")),
        ("text", json!(null)),
        ("role", json!("tool")),
        ("metadata", json!(null)),
    ] {
        let mut wrong_delta = delta.clone();
        wrong_delta[field] = wrong;
        assert!(!schema().is_valid(&wrong_delta), "{wrong_delta}");
    }
}
