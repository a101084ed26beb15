//! Token counts against those of Python's tiktoken, which `fixtures/tokens/make.py` recorded.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use providers::count_tokens;

#[test]
fn token_counts_equal_those_of_tiktoken() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tokens/cases.json");
    let cases: Vec<(usize, String)> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.len() >= 200);
    for (expected, text) in cases {
        assert_eq!(count_tokens(&text), expected, "{text:?}");
    }
}

#[test]
fn counting_takes_no_quadratic_time() {
    // Worst cases, as long as the longest question: a naive tokenizer takes quadratic time or overflows its stack.
    for text in ["a", " ", "\n", " \t", "漢", "!", "ab"].map(|piece| piece.repeat(100_000)) {
        let began = Instant::now();
        assert!(count_tokens(&text) > 500);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
