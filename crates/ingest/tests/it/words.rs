//! The strategy `words` against what the Python package cut.

use ingest::chunk::{Strategy, chunks};
use serde_json::Value;

const CASES: &str = include_str!("../../fixtures/words/cases.json");

#[test]
fn windows_of_words_are_those_of_the_python_baseline() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let document = ingest::parse("page.md", text);
        let found = chunks(&document, Strategy::Words, &|_| unreachable!("words need no tokens"));
        let found: Vec<&str> = found.iter().map(|chunk| &text[chunk.range.clone()]).collect();
        let expected: Vec<&str> =
            case["chunks"].as_array().unwrap().iter().map(|chunk| chunk.as_str().unwrap()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_window_knows_its_heading_and_its_lines() {
    let words = "word ".repeat(400);
    let text = format!("# Title\n\n## First\n\n{words}\n\n## Second\n\n{words}");
    let document = ingest::parse("page.md", &text);
    let found = chunks(&document, Strategy::Words, &|_| 0);
    let sections: Vec<Option<&str>> = found.iter().map(|chunk| chunk.section.as_deref()).collect();
    assert_eq!(sections, [Some("First"), Some("First"), Some("Second")]);
    assert_eq!(found[1].lines, (5, 9));
    assert_eq!(found[1].context, "");
}
