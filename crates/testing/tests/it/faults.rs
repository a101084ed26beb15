//! The faults of model names over HTTP, most of them with both APIs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::{FakeModel, fake_text};

use crate::client::{APIS, Body, ask, ask_all, content, post};

#[tokio::test]
async fn tokens_are_sent_64_per_write() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let body = ask_all(&fake, path, "fake,tokens=1000").await;
        assert_eq!(body.text(), fake_text(1000), "{path}");
        assert_eq!(body.writes.len(), 16, "{path}");
    }
}

#[tokio::test]
async fn a_pace_delays_each_token() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let begin = Instant::now();
        let body = ask_all(&fake, path, "fake,tokens=6,pace=20ms").await;
        assert!(begin.elapsed() >= Duration::from_millis(99), "{path}: {:?}", begin.elapsed());
        assert_eq!(body.text(), fake_text(6), "{path}");
        assert_eq!(body.writes.len(), 6, "{path}: one token per write");
    }
}

#[tokio::test]
async fn silence_and_delay_delay_the_headers() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let begin = Instant::now();
        let answer = ask(&fake, path, "fake,silence=40ms,delay=20ms").await;
        assert!(begin.elapsed() >= Duration::from_millis(59), "{path}: {:?}", begin.elapsed());
        assert_eq!(answer.body().await.text(), fake_text(16), "{path}");
    }
}

#[tokio::test]
async fn the_connection_is_cut_after_exactly_k_tokens() {
    let fake = FakeModel::start().await;
    for path in APIS {
        for tokens in [0, 5, 64, 20_000] {
            let body = ask_all(&fake, path, &format!("fake,die={tokens}")).await;
            assert!(!body.ended_properly, "{path} {tokens}");
            assert_eq!(body.text(), fake_text(tokens), "{path} {tokens}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_cut_too() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let body = post(&fake, path, &json!({"model": "fake,die=5", "stream": false})).await.body().await;
        assert!(!body.ended_properly, "{path}");
        assert_eq!(body.bytes(), b"", "{path}");
    }
}

#[tokio::test]
async fn a_stalled_model_sends_its_tokens_and_nothing_more() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let mut answer = ask(&fake, path, "fake,stall=5").await;
        let write = answer.next().await.unwrap().unwrap();
        let tokens = String::from_utf8(write).unwrap().matches(r#""content":""#).count();
        // OpenAI's first chunk has empty content.
        assert_eq!(tokens, if path.starts_with("/v1") { 6 } else { 5 }, "{path}");
        let more = tokio::time::timeout(Duration::from_millis(50), answer.next()).await;
        assert!(more.is_err(), "{path}: {more:?}");
    }
}

#[tokio::test]
async fn characters_are_split_between_writes_and_between_frames() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let body = ask_all(&fake, path, "fake,split").await;
        assert!(body.ended_properly);
        let cut = body.writes.iter().filter(|write| std::str::from_utf8(write).is_err()).count();
        assert!(cut > 10, "{path}: {cut} writes end or begin inside a character");
        for write in &body.writes {
            let longer = write.iter().filter(|byte| !byte.is_ascii()).count();
            assert!(longer <= 1, "{path}: {longer} bytes of longer characters in one write");
        }
        // Half of a surrogate pair is not valid JSON, so the two frames are joined where they were split.
        let text = String::from_utf8(body.bytes()).unwrap();
        let (before, high) = text.split_once("\\ud83d\"").unwrap();
        let (between, after) = high.split_once("\"\\ude42").unwrap();
        assert!(between.contains('\n'), "{path}: the halves are in two frames");
        let joined = format!("{before}\\ud83d\\ude42{after}").into_bytes();
        let body = Body { writes: vec![joined], ended_properly: true };
        assert_eq!(body.text(), fake_text(16), "{path}");
    }
}

#[tokio::test]
async fn an_answer_may_end_inside_a_character() {
    let fake = FakeModel::start().await;
    for (path, half) in APIS.into_iter().zip([&b"\"\\ud83d\""[..], &b"\"\xf0\x9f\""[..]]) {
        let body = ask_all(&fake, path, "fake,half").await;
        assert!(body.ended_properly);
        let found = body.bytes().windows(half.len()).filter(|window| *window == half).count();
        assert_eq!(found, 1, "{path}");
    }
}

#[tokio::test]
async fn a_status_comes_with_the_error_body_of_its_api() {
    let fake = FakeModel::start().await;
    let message = "the model's name asks for this status";
    let openai = json!({"message": message, "type": "rate_limit_error", "param": null, "code": null});
    for (path, error) in APIS.into_iter().zip([openai, json!(message)]) {
        let answer = ask(&fake, path, "fake,status=429,retry-after=7").await;
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("7")), "{path}");
        assert_eq!(answer.body().await.json(), json!({"error": error}), "{path}");
    }
    for status in [400, 401, 404, 500, 503] {
        let answer = ask(&fake, APIS[0], &format!("fake,status={status}")).await;
        assert_eq!((answer.status, answer.header("retry-after")), (status, None));
    }
}

#[tokio::test]
async fn repeated_frames_are_equal_to_the_byte() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let body = ask_all(&fake, path, "fake,repeat-ids").await;
        let mut frames = body.frames();
        let text = String::from_utf8(body.bytes()).unwrap();
        let ids: Vec<_> = text.lines().filter(|line| line.starts_with("id: ")).collect();
        if path.starts_with("/v1") {
            assert_eq!(ids.len(), frames.len() - 1, "every frame but [DONE] has an id");
            assert_eq!(ids[3..6], ["id: 3", "id: 3", "id: 4"]);
            assert_eq!(frames[3], frames[4]);
            continue;
        }
        let sent = frames.len();
        frames.dedup();
        assert_eq!(sent - frames.len(), 16 / 3, "moments differ, so equal neighbours are repeats");
        let once: Vec<Value> = frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
        let text: String = once.iter().filter_map(|frame| content(frame, "content")).collect();
        assert_eq!(text, fake_text(16));
    }
}

#[tokio::test]
async fn an_error_may_come_midway() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let body = ask_all(&fake, path, "fake,error=5").await;
        let frames = body.json_frames();
        assert_eq!(body.text(), fake_text(5), "{path}");
        assert!(frames.last().unwrap().get("error").is_some(), "{path}");
        assert!(body.ended_properly, "{path}");
        let whole = post(&fake, path, &json!({"model": "fake,error=5", "stream": false})).await;
        assert_eq!(whole.status, 500, "{path}");
    }
}

#[tokio::test]
async fn an_empty_answer_ends_properly() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let body = ask_all(&fake, path, "fake,empty").await;
        assert_eq!((body.text().as_str(), body.ended_properly), ("", true), "{path}");
        let end = body.json_frames().pop().unwrap();
        assert!(end["done_reason"] == "stop" || end["choices"][0]["finish_reason"] == "stop", "{end}");
    }
}

#[tokio::test]
async fn a_model_may_stop_for_length() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let end = ask_all(&fake, path, "fake,length").await.json_frames().pop().unwrap();
        assert!(end["done_reason"] == "length" || end["choices"][0]["finish_reason"] == "length", "{end}");
    }
}

#[tokio::test]
async fn an_echo_has_the_words_of_the_question() {
    let fake = FakeModel::start().await;
    for path in APIS {
        assert_eq!(ask_all(&fake, path, "fake,echo").await.text(), "why does water run down?", "{path}");
        assert_eq!(ask_all(&fake, path, "fake,echo,tokens=2").await.text(), "why does ", "{path}");
        assert_eq!(ask_all(&fake, path, "fake,words,tokens=3").await.text(), "word0 word1 word2 ", "{path}");
    }
}

#[tokio::test]
async fn an_invalid_model_name_is_rejected() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let answer = ask(&fake, path, "fake,tokns=5").await;
        assert_eq!(answer.status, 400, "{path}");
        let error = answer.body().await.json().to_string();
        assert!(error.contains("`tokns=5`") && error.contains("tokens=N"), "{error}");
        assert_eq!(post(&fake, path, &json!({"messages": []})).await.status, 400, "{path}");
    }
}
