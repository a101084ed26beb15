use super::OllamaDecoder;
use crate::decode::MAX_FRAME;
use crate::decode::fixture;

macro_rules! answer {
    ($name:literal) => {
        include_bytes!(concat!("../../../../../fixtures/ollama/", $name, ".ndjson")).as_slice()
    };
}

#[track_caller]
fn check(answer: &[u8], expected: &[&str]) {
    fixture::check::<OllamaDecoder>(answer, expected);
}

#[test]
fn an_answer_is_its_texts_then_usage_then_finish() {
    check(
        answer!("plain"),
        &[
            r#"text "The""#,
            r#"text " sky""#,
            r#"text " is""#,
            r#"text " is""#,
            r#"text "\n\n""#,
            r#"text "blue.""#,
            "usage Some(26) Some(5) None",
            "finish Stop",
        ],
    );
    check(answer!("length"), &[r#"text "One two""#, "usage Some(12) Some(2) None", "finish Length"]);
}

#[test]
fn thinking_is_reasoning() {
    check(
        answer!("thinking"),
        &[
            r#"reasoning "Let me""#,
            r#"reasoning " see.""#,
            r#"text "42""#,
            "usage Some(26) Some(5) None",
            "finish Stop",
        ],
    );
}

#[test]
fn tool_calls_arrive_whole() {
    check(
        answer!("tool_calls"),
        &[
            r#"call "" search {"query":"tide tables","limit":3}"#,
            r#"call "call_7" clock {}"#,
            "usage Some(26) Some(5) None",
            "finish ToolCalls",
        ],
    );
}

#[test]
fn an_error_ends_the_answer() {
    check(
        answer!("error_midway"),
        &[
            r#"text "The""#,
            "Died: reported an error: an error was encountered while running the model: CUDA error",
        ],
    );
    check(answer!("error_first"), &["Unavailable: reported an error: model runner has unexpectedly stopped"]);
}

#[test]
fn an_answer_without_its_last_frame_is_a_failure() {
    let broken = ["text \"The\"", "text \" sk\"", "Died: the answer broke off: end of file"];
    check(answer!("broken_off"), &broken);
    check(b"", &["Unavailable: no answer came: end of file; check base_url and the provider's kind"]);
}

#[test]
fn line_ends_and_byte_order_marks_of_all_systems_are_understood() {
    check(
        answer!("crlf_no_final_newline"),
        &[r#"text "Hi""#, r#"text " there""#, "usage Some(26) Some(5) None", "finish Stop"],
    );
}

#[test]
fn characters_are_joined_however_they_were_cut() {
    check(
        answer!("non_ascii"),
        &[
            r#"text "Größe ""#,
            r#"text "日本""#,
            r#"text "😀 é""#,
            r#"text "ü中""#,
            "usage Some(26) Some(5) None",
            "finish Stop",
        ],
    );
    check(
        answer!("split_surrogate"),
        &[
            r#"text "a""#,
            r#"reasoning "hm""#,
            r#"text "😀b""#,
            r#"reasoning "🌊""#,
            r#"text "end""#,
            "usage Some(26) Some(5) None",
            "finish Stop",
        ],
    );
    check(
        answer!("split_bytes"),
        &[r#"text "x""#, r#"text "😀y""#, r#"text "a�b""#, "usage Some(26) Some(5) None", "finish Stop"],
    );
}

#[test]
fn a_frame_sent_twice_counts_once_and_equal_texts_count_twice() {
    let texts = [r#"text "ha""#, r#"text "ha""#];
    let rest = [r#"text "!""#, "usage Some(26) Some(5) None", "finish Stop"];
    check(answer!("repeated"), &[texts.as_slice(), &rest].concat());
    check(answer!("repeated_without_time"), &[texts.as_slice(), &["finish Stop"]].concat());
}

#[test]
fn a_frame_that_is_not_json_ends_the_answer() {
    let events = fixture::decode::<OllamaDecoder>([answer!("not_json")]);
    assert_eq!(events[0], r#"text "The""#);
    assert!(events[1].starts_with("Died: sent a frame that is not the JSON we expect"), "{events:?}");
    assert_eq!(events.len(), 2);
}

#[test]
fn a_frame_over_the_bound_ends_the_answer() {
    let frame = format!(r#"{{"message":{{"content":"{}"}}}}"#, "x".repeat(MAX_FRAME));
    let events = fixture::decode::<OllamaDecoder>(frame.as_bytes().chunks(100_000));
    assert_eq!(events, ["Unavailable: sent a frame of more than 1048576 bytes"]);
}

#[test]
fn noise_and_cuts_never_panic() {
    fixture::check_noise::<OllamaDecoder>(vec![
        answer!("plain"),
        answer!("tool_calls"),
        answer!("crlf_no_final_newline"),
        answer!("split_surrogate"),
        answer!("repeated"),
    ]);
}

#[test]
fn fuzz_nearly_right_answers() {
    fixture::check_nearly_right::<OllamaDecoder>(&[
        answer!("plain"),
        answer!("thinking"),
        answer!("tool_calls"),
        answer!("non_ascii"),
        answer!("split_surrogate"),
        answer!("error_midway"),
        answer!("repeated"),
        answer!("crlf_no_final_newline"),
    ]);
}
