//! The questions about this project's documentation fit the pages that they are about.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bench::collection::{self, has_fact};
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name)
}

#[test]
fn every_fact_about_the_documentation_is_in_its_document() {
    let folder = fixture("documentation");
    let documents = collection::documents(&folder);
    let texts: HashMap<&str, &str> =
        documents.iter().map(|document| (document.file_path.as_str(), document.text.as_str())).collect();
    let references = collection::reference_answers(&folder);
    for question in collection::questions(&folder, &documents) {
        let reference = &references[&question.id];
        let is_in = |path: &String| has_fact(texts[path.as_str()], &reference.facts);
        assert!(!reference.answerable || question.answered_by.iter().any(is_in), "{}", question.text);
    }
    assert!(references.len() >= 30);
}

#[test]
fn every_fact_of_the_dialogues_is_in_its_document() {
    let folder = fixture("dialogues");
    let documents = collection::documents(&folder);
    let texts: HashMap<&str, &str> =
        documents.iter().map(|document| (document.id.as_str(), document.text.as_str())).collect();
    let (mut two, mut five) = (0, 0);
    for dialogue in collection::json_lines::<Value>(&folder.join("dialogues.jsonl")) {
        let turns = dialogue["turns"].as_array().unwrap();
        let refers_back = turns[1..].iter().any(|turn| turn["standalone"].is_string());
        two += usize::from(refers_back && turns.len() == 2);
        five += usize::from(refers_back && turns.len() >= 5);
        for turn in turns {
            let text = texts[turn["document"].as_str().unwrap()];
            for fact in turn["facts"].as_array().unwrap() {
                let fact = fact.as_str().unwrap().to_owned();
                assert!(has_fact(text, std::slice::from_ref(&fact)), "{fact:?} is not in it: {turn}");
            }
        }
    }
    assert!(two >= 50 && five >= 8, "{two} of two turns and {five} of five");
}
