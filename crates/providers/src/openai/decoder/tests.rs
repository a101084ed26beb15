use super::OpenAiDecoder;
use crate::decode::MAX_FRAME;
use crate::decode::fixture;

macro_rules! answer {
    ($name:literal) => {
        include_bytes!(concat!("../../../../../fixtures/openai/", $name, ".sse")).as_slice()
    };
}

#[track_caller]
fn check(answer: &[u8], expected: &[&str]) {
    fixture::check::<OpenAiDecoder>(answer, expected);
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
            "usage Some(19) Some(6) Some(16)",
            "finish Stop",
        ],
    );
}

#[test]
fn reasoning_has_two_names_and_counts_once() {
    check(
        answer!("reasoning"),
        &[r#"reasoning "Let me""#, r#"reasoning " see""#, r#"reasoning ".""#, r#"text "42""#, "finish Stop"],
    );
}

#[test]
fn tool_calls_are_assembled() {
    check(
        answer!("tool_calls"),
        &[
            r#"call "call_a" search {"query":"tide tables"}"#,
            r#"call "call_b" clock {}"#,
            "usage Some(50) Some(20) Some(0)",
            "finish ToolCalls",
        ],
    );
}

#[test]
fn finish_reasons_are_decoded() {
    check(answer!("length"), &[r#"text "One two""#, "usage Some(12) Some(2) Some(0)", "finish Length"]);
    check(answer!("filtered"), &[r#"text "Well""#, "finish Filtered"]);
}

#[test]
fn usage_is_reported_once() {
    check(
        answer!("usage_in_every_frame"),
        &[r#"text "a""#, r#"text "b""#, "usage Some(3) Some(2) None", "finish Stop"],
    );
}

#[test]
fn an_error_ends_the_answer() {
    check(
        answer!("error_midway"),
        &[r#"text "The""#, "Died: reported an error: The server had an error while processing your request"],
    );
    check(answer!("error_event"), &[r#"text "The""#, "Died: reported an error: overloaded"]);
}

#[test]
fn an_error_before_any_content_allows_fallback() {
    check(answer!("error_first"), &["Unavailable: reported an error: The model is overloaded"]);
    check(
        answer!("error_object"),
        &["TooLong: reported an error: This model's maximum context length is 4096 tokens."],
    );
}

#[test]
fn an_answer_without_an_end_is_a_failure() {
    let broken = ["text \"The\"", "text \" sk\"", "Died: the answer broke off: end of file"];
    check(answer!("broken_off"), &broken);
    check(b"", &["Unavailable: no answer came: end of file; check base_url and the provider's kind"]);
}

#[test]
fn an_answer_ends_with_a_finish_reason_or_done() {
    check(
        answer!("finished_without_done"),
        &[r#"text "Hi""#, "usage Some(3) Some(1) Some(0)", "finish Stop"],
    );
    check(answer!("cut_after_finish"), &[r#"text "Hi""#, "finish Stop"]);
    check(answer!("done_without_finish"), &[r#"text "Hi""#, "finish Stop"]);
}

#[test]
fn comments_keep_alives_and_line_ends_of_all_systems_are_understood() {
    let greeting = [r#"text "Hi""#, r#"text " there""#, "finish Stop"];
    check(answer!("crlf_comments_keepalive"), &greeting);
    check(answer!("cr_only"), &greeting);
}

#[test]
fn characters_are_joined_however_they_were_cut() {
    check(
        answer!("non_ascii"),
        &[r#"text "Größe ""#, r#"text "日本""#, r#"text "😀 é""#, r#"text "ü中😀""#, "finish Stop"],
    );
    check(
        answer!("split_surrogate"),
        &[
            r#"text "a""#,
            r#"reasoning "hm""#,
            r#"text "😀b""#,
            r#"reasoning "🌊""#,
            r#"text "lone�""#,
            r#"text "end""#,
            "finish Stop",
        ],
    );
    check(answer!("split_bytes"), &[r#"text "x""#, r#"text "😀y""#, r#"text "a�b""#, "finish Stop"]);
}

#[test]
fn a_message_sent_twice_counts_once_and_equal_texts_count_twice() {
    let laughter = [r#"text "ha""#, r#"text "ha""#, r#"text "!""#, "finish Stop"];
    check(answer!("repeated_ids"), &laughter);
    check(answer!("sequence_numbers"), &laughter);
}

#[test]
fn one_id_for_all_messages_is_ignored() {
    check(answer!("one_id_for_all"), &[r#"text "ho""#, r#"text "ha""#, r#"text "ha""#, "finish Stop"]);
}

#[test]
fn a_frame_that_is_not_json_ends_the_answer() {
    let events = fixture::decode::<OpenAiDecoder>([answer!("not_json")]);
    assert_eq!(events[0], r#"text "The""#);
    assert!(events[1].starts_with("Died: sent a frame that is not the JSON we expect"), "{events:?}");
    assert_eq!(events.len(), 2);
}

#[test]
fn a_frame_over_the_bound_ends_the_answer() {
    let frame = format!("data: {}\n\n", "x".repeat(MAX_FRAME));
    let events = fixture::decode::<OpenAiDecoder>(frame.as_bytes().chunks(100_000));
    assert_eq!(events, ["Unavailable: sent a frame of more than 1048576 bytes"]);
}

const ANSWERS: [&[u8]; 9] = [
    answer!("plain"),
    answer!("reasoning"),
    answer!("tool_calls"),
    answer!("crlf_comments_keepalive"),
    answer!("split_surrogate"),
    answer!("repeated_ids"),
    answer!("sequence_numbers"),
    answer!("cr_only"),
    answer!("broken_off"),
];

#[test]
fn noise_and_cuts_never_panic() {
    fixture::check_noise::<OpenAiDecoder>(ANSWERS.to_vec());
}

#[test]
fn fuzz_nearly_right_answers() {
    fixture::check_nearly_right::<OpenAiDecoder>(&ANSWERS);
}
