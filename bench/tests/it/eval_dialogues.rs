//! `eval-dialogues`.

use std::fs;

use serde_json::{Value, json};

use crate::{evaluate, folder, text};

const BINARY: &str = env!("CARGO_BIN_EXE_eval-dialogues");

#[tokio::test]
async fn each_follow_up_question_is_searched_for_in_three_forms() {
    let corpus = "{\"_id\": \"red\", \"text\": \"Red apples are sweet.\"}\n\
                  {\"_id\": \"sky\", \"text\": \"The sky is wide.\"}\n";
    let dialogues = r#"{"_id": "a", "turns": [{"question": "Where do red apples grow?", "document": "red", "facts": ["red"], "answer": "On trees."}, {"question": "And how do they taste?", "standalone": "How do red apples taste?", "document": "red", "facts": ["`SWEET`"]}, {"question": "Is the sky wide?", "document": "sky", "facts": ["never said"]}]}
"#;
    let folder = folder(&[("corpus.jsonl", corpus), ("dialogues.jsonl", dialogues)]);
    let output = evaluate(BINARY, folder.path(), &["--json"]).await;
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let (follow_up, alone) = (&report["of_longer"], &report["stands_alone"]);
    assert_eq!((&follow_up["questions"], &follow_up["rewritten"]), (&json!(1), &json!(1)));
    assert_eq!((&alone["questions"], &alone["rewritten"]), (&json!(1), &json!(0)));
    assert_eq!(follow_up["passage_recall@5"]["rewritten"], 1.0);
    assert_eq!(alone["document_recall@5"]["as_asked"], 1.0);
    assert_eq!(alone["passage_recall@5"]["as_asked"], 0.0, "the document without the fact does not count");

    let output = evaluate(BINARY, folder.path(), &[]).await;
    assert!(text(&output.stdout).contains("refers back, in a longer one"), "{}", text(&output.stdout));
    let wrong = r#"{"_id": "a", "turns": [{"question": "?", "document": "blue", "facts": []}]}"#;
    fs::write(folder.path().join("dialogues.jsonl"), wrong).unwrap();
    let output = evaluate(BINARY, folder.path(), &[]).await;
    let message = text(&output.stderr);
    assert!(message.contains("there is no document \"blue\" in corpus.jsonl"), "{message}");
}
