//! Nearly right requests of every dialect: each is decoded, or rejected with a 4xx status.

use dialects::generation::{self, Encoding};
use dialects::{ErrorFormat, chat, chat_stream, history, knowledge, staged};
use domain::{Rejection, SessionId, Timestamp, TraceId};
use testing::{fuzz, fuzz_text};

const SESSION: &str = "01a1e1b0-987c-7475-a87f-eec9b77bdda2";

const WORDS: [&str; 20] = [
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "5.0",
    "0",
    "21",
    "-0",
    "1e3",
    "\"\\ud83d\"",
    "\\u0000",
    ",",
    ":",
    "{\"a\":",
    "[[[[",
    "\"filters\":{\"language\":[\"rust\"]},",
    "\"filePath\":\"**/[\",",
    "\"topK\":20,",
    "\"metadata.x\":1,",
];

/// Checks that a rejection is a 4xx in every format, with a message that is not empty and not long.
fn check<T>(decoded: Result<T, Rejection>) {
    let Err(rejection) = decoded else { return };
    for format in [ErrorFormat::Generation, ErrorFormat::Chat] {
        let reply = format.rejected(&rejection);
        assert!((400..500).contains(&reply.status), "{rejection:?}: {}", reply.status);
        let body = format.body(&reply, TraceId::random());
        let body: serde_json::Value = serde_json::from_slice(&body).expect("an error body is JSON");
        let message = body["message"].as_str().expect("an error body has a message");
        assert!((1..=1_000).contains(&message.chars().count()), "{message}");
    }
}

fn session() -> SessionId {
    SessionId::new(Timestamp::from_micros(1))
}

#[test]
fn fuzz_generation_requests() {
    let prompt = format!(
        r#"{{"sessionId":"{SESSION}","prompt":"why?","idempotencyKey":"k","topK":5,"provider":"local","filters":{{"repoUrl":"https://example.com","filePath":"src/**/*.rs","title":["a","b"],"metadata.team":"x"}}}}"#
    );
    let cancel = format!(r#"{{"sessionId":"{SESSION}","promptId":"{SESSION}","reason":"user_initiated"}}"#);
    let seeds = [br#"{"owner":"acme/x","context":{"a":"b"}}"#, prompt.as_bytes(), cancel.as_bytes()];
    fuzz(&seeds, &WORDS, |body| {
        check(generation::decode_session(body));
        check(generation::decode_cancel(body));
        let header = String::from_utf8_lossy(body);
        for key in [None, Some(&*header), Some("k")] {
            check(generation::decode_prompt(body, key, TraceId::random()));
        }
    });
}

#[test]
fn fuzz_chat_requests() {
    let chat = format!(
        r#"{{"query":"why?","session_id":"{SESSION}","mode":"selected_text","selected_text":"a\nb","top_k":5,"score_threshold":0.5,"filters":{{"source_url":"/x","metadata.a":["b"]}}}}"#
    );
    let staged = format!(r#"{{"message":"why?","session_id":"{SESSION}"}}"#);
    fuzz(&[chat.as_bytes(), staged.as_bytes(), br#"{"query":"why?"}"#], &WORDS, |body| {
        check(chat::decode(body, session(), TraceId::random()));
        check(staged::decode(body, TraceId::random()));
        check(chat_stream::decode(body, session(), TraceId::random()));
    });
}

#[test]
fn fuzz_knowledge_requests() {
    let seeds: [&[u8]; 3] = [
        br##"{"documents":[{"repoUrl":"https://example.com/x","filePath":"a.md","title":"A","text":"# A","metadata":{"url":"/a","n":1}}],"collection":"c"}"##,
        br#"{"query":"water","k":10,"filters":{"collection":"c","language":["rust","go"]},"includeFullText":true,"explain":false}"#,
        br#"{"query":"x"}"#,
    ];
    fuzz(&seeds, &WORDS, |body| {
        check(knowledge::decode_ingest(body));
        check(knowledge::decode_query(body, 1_000));
    });
}

#[test]
fn fuzz_headers_and_query_strings() {
    let seeds =
        ["17", SESSION, "in-flight", "text/event-stream;q=0.9, application/x-ndjson", "1760000000000000-x"];
    fuzz_text(&seeds, &["+", "-", "*/*", ";q=", ",", "%00", "done", "0"], |text| {
        check(generation::resume_position(Some(text), None));
        check(generation::resume_position(None, Some(text)));
        check(history::decode_page(Some(text), Some(text)));
        check(history::decode_status(Some(text)));
        check(knowledge::decode_page(Some(text), Some(text)));
        check(chat::decode_limit(Some(text)));
        Encoding::from_accept(Some(text));
        let _ = (text.parse::<SessionId>(), text.parse::<TraceId>(), TraceId::from_traceparent(text));
    });
}
