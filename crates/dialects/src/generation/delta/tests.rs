use domain::{
    Accepted, CancelReason, Citation, EndCause, Failure, FailureKind, RetrievedPassages, SearchScope,
    StageName, Text, Usage,
};

use super::*;
use crate::fixture::{self, accepted, log_of, model, text};

fn log(key: Option<&str>, steps: Vec<(i64, Step)>) -> Vec<Event> {
    let key = key.map(str::to_owned);
    log_of(Accepted { key, ..accepted(SearchScope::default()) }, steps)
}

fn ended(outcome: Outcome, cause: EndCause) -> Step {
    Step::Ended(Box::new(Ended { outcome, cause }))
}

fn encode(log: &[Event], encoding: Encoding, after: Option<u64>) -> String {
    fixture::encode(log, DeltaEncoder::new(encoding, after))
}

fn whole_answer() -> Vec<Event> {
    log(
        Some("k"),
        vec![
            (250_000, Step::Started(model("second"))),
            (250_000, Step::Reasoning(Text::from("hm"))),
            (250_000, text("a \"b\"\n")),
            (1_250_000, text("ü")),
            (2_250_000, Step::Usage(Usage { cached: Some(7), ..Usage::default() })),
            (2_250_000, ended(Outcome::Done(FinishReason::Stop), EndCause::Model)),
        ],
    )
}

#[test]
fn an_answer_is_tokens_and_one_done() {
    let id = "0190a0b0-0000-7000-8000-000000000001";
    let expected = [
        format!(r#"{{"promptId":"{id}","type":"token","seq":0,"text":"a \"b\"\n","role":"assistant"}}"#),
        format!(r#"{{"promptId":"{id}","type":"token","seq":1,"text":"ü","role":"assistant"}}"#),
        format!(
            r#"{{"promptId":"{id}","type":"done","seq":2,"role":"assistant","metadata":{{"tokenCount":2,"finishReason":"stop","provider":"second","model":"m","timeToFirstTokenMs":250,"tokensPerSecond":1.0,"retrievalMs":0,"cachedTokens":7,"sources":[],"idempotencyKey":"k"}}}}"#
        ),
    ];
    assert_eq!(encode(&whole_answer(), Encoding::Ndjson, None), expected.join("\n") + "\n");
}

#[test]
fn a_done_delta_lists_the_passages_in_the_prompt_and_marks_the_cited_ones() {
    let passage = |path: Option<&str>, lines| Passage {
        chunk: "0190a0b0-0000-7000-8000-00000000000c".parse().unwrap(),
        document: "0190a0b0-0000-7000-8000-00000000000d".parse().unwrap(),
        title: "Guide".to_owned(),
        repo_url: path.map(|_| "https://r".to_owned()),
        file_path: path.map(str::to_owned),
        url: None,
        section: None,
        subsection: None,
        lines,
        chars: None,
        text: "The text.".to_owned(),
        score: 0.5,
    };
    let in_prompt = vec![passage(Some("a.md"), Some((3, 4))), passage(None, None)];
    let took = Duration::from_micros(7_900);
    let line = encode(
        &log(
            None,
            vec![
                (1, Step::Stage(Stage::Began(StageName::Retrieval))),
                (9, Step::Stage(Stage::Ended { name: StageName::Retrieval, count: 40, took })),
                (9, Step::Passages(Box::new(RetrievedPassages { found: 5, in_prompt }))),
                (20, Step::Citations([Citation { number: 2, quote: None }].into())),
                (30, ended(Outcome::Done(FinishReason::Stop), EndCause::Model)),
            ],
        ),
        Encoding::Ndjson,
        None,
    );
    let ids = r#""documentId":"0190a0b0-0000-7000-8000-00000000000d","chunkId":"0190a0b0-0000-7000-8000-00000000000c""#;
    let sources = format!(
        r#""retrievalMs":7,"sources":[{{"index":1,{ids},"title":"Guide","repoUrl":"https://r","filePath":"a.md","lineStart":3,"lineEnd":4,"excerpt":"The text.","score":0.5,"cited":false}},{{"index":2,{ids},"title":"Guide","excerpt":"The text.","score":0.5,"cited":true}}]"#
    );
    assert!(line.contains(&sources), "{line}");
}

#[test]
fn server_sent_events_carry_the_same_objects() {
    let lines = encode(&whole_answer(), Encoding::Ndjson, None);
    let kinds = ["token", "token", "done"];
    let expected: String = (0..)
        .zip(lines.lines().zip(kinds))
        .map(|(seq, (line, kind))| format!("id: {seq}\nevent: {kind}\ndata: {line}\n\n"))
        .collect();
    assert_eq!(encode(&whole_answer(), Encoding::Sse, None), expected);
}

#[test]
fn a_resumed_stream_continues_the_first_one() {
    for encoding in [Encoding::Ndjson, Encoding::Sse] {
        let whole = encode(&whole_answer(), encoding, None);
        for after in 0..4 {
            let rest = encode(&whole_answer(), encoding, Some(after));
            assert!(whole.ends_with(&rest));
            let frames = rest.matches("promptId").count() as u64;
            assert_eq!(frames, 3_u64.saturating_sub(after + 1));
        }
    }
    assert_eq!(terminal_seq(&whole_answer()), 2);
}

#[test]
fn a_cancelled_prompt_ends_with_a_done_delta() {
    let cancelled = ended(Outcome::Cancelled, EndCause::Client(CancelReason::UserInitiated));
    let line = encode(&log(None, vec![(9, cancelled)]), Encoding::Ndjson, None);
    let expected = r#""metadata":{"tokenCount":0,"finishReason":"cancelled","provider":"first","model":"m","tokensPerSecond":0.0,"retrievalMs":0,"sources":[],"cancelled":true}}"#;
    assert!(line.trim_end().ends_with(expected), "{line}");
}

#[test]
fn every_failure_has_its_code_and_retryability() {
    for (kind, expected, retryable) in [
        (FailureKind::Unavailable, "provider_unavailable", true),
        (FailureKind::Refused, "provider_unavailable", false),
        (FailureKind::SilentAtStart, "provider_timeout", true),
        (FailureKind::Stalled, "provider_timeout", true),
        (FailureKind::Died, "provider_error", true),
        (FailureKind::EmptyAnswer, "empty_answer", true),
        (FailureKind::TooLong, "prompt_too_long", false),
        (FailureKind::Retrieval, "retrieval_unavailable", true),
        (FailureKind::Embedding, "retrieval_unavailable", true),
        (FailureKind::Overloaded, "overloaded", true),
        (FailureKind::Interrupted, "interrupted", true),
        (FailureKind::Internal, "internal_error", false),
    ] {
        let failure = Failure { retry_after: Some(Duration::from_secs(2)), ..Failure::new(kind, "why") };
        let failed = ended(Outcome::Failed(failure), EndCause::Model);
        let line = encode(&log(Some("k"), vec![(9, failed)]), Encoding::Ndjson, None);
        let metadata = format!(
            r#""role":"system","metadata":{{"code":"{expected}","message":"why","retryable":{retryable},"retryAfterMs":2000,"idempotencyKey":"k"}}}}"#
        );
        assert!(line.trim_end().ends_with(&metadata), "{line}");
    }
}
