//! The strategy `words` against the recorded output of the Python package.

use ingest::chunk::{ChunkStrategy, chunk_document};
use serde_json::Value;

const CASES: &str = include_str!("../../fixtures/words/cases.json");

#[test]
fn word_windows_equal_those_of_the_python_baseline() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let document = ingest::parse("page.md", text);
        let found = chunk_document(&document, ChunkStrategy::Words, &|_| {
            unreachable!("the strategy counts no tokens")
        });
        let found: Vec<&str> = found.iter().map(|chunk| &text[chunk.range.clone()]).collect();
        let expected: Vec<&str> =
            case["chunks"].as_array().unwrap().iter().map(|chunk| chunk.as_str().unwrap()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_window_has_its_heading_and_its_lines() {
    let words = "word ".repeat(400);
    let text = format!("# Title\n\n## First\n\n{words}\n\n## Second\n\n{words}");
    let document = ingest::parse("page.md", &text);
    let found = chunk_document(&document, ChunkStrategy::Words, &|_| 0);
    let sections: Vec<Option<&str>> = found.iter().map(|chunk| chunk.section.as_deref()).collect();
    assert_eq!(sections, [Some("First"), Some("First"), Some("Second")]);
    assert_eq!(found[1].lines, (5, 9));
    assert_eq!(found[1].context, "");
}
