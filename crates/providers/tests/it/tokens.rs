//! Tokens as Python's tiktoken counts them; `fixtures/tokens/make.py` asked it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use providers::count_tokens;

#[test]
fn texts_have_as_many_tokens_as_tiktoken_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tokens/cases.json");
    let cases: Vec<(usize, String)> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.len() >= 200);
    for (expected, text) in cases {
        assert_eq!(count_tokens(&text), expected, "{text:?}");
    }
}

#[test]
fn no_text_takes_long_to_count() {
    // The longest question there may be, of what takes quadratic time or overflows a stack if it is done badly.
    for text in ["a", " ", "\n", " \t", "漢", "!", "ab"].map(|piece| piece.repeat(100_000)) {
        let began = Instant::now();
        assert!(count_tokens(&text) > 500);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
