//! `eval-answers`: every answer of the fake model is "word0 word1 word2".

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{evaluate, folder, text};

const BINARY: &str = env!("CARGO_BIN_EXE_eval-answers");

/// `fixtures/eval` with these reference answers.
fn collection(references: &str) -> TempDir {
    let file = |name: &str| {
        fs::read_to_string(format!("{}/../fixtures/eval/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    folder(&[
        ("corpus.jsonl", &file("corpus.jsonl")),
        ("queries.jsonl", &file("queries.jsonl")),
        ("qrels.tsv", &file("qrels.tsv")),
        ("answers.jsonl", references),
    ])
}

async fn report(folder: &TempDir, arguments: &[&str]) -> Value {
    let output = evaluate(BINARY, folder.path(), &[arguments, &["--json"]].concat()).await;
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

#[tokio::test]
async fn answers_are_compared_with_reference_answers() {
    // F1 is 4/5 against the first reference, and 2/4 against the best of the second's.
    let folder = collection(
        r#"{"_id": "q1", "answers": ["word0 word1"]}
{"_id": "q2", "answers": ["none", "word2"]}
{"_id": "q3", "answerable": false}
{"_id": "q4", "facts": ["other", "`WORD1`"]}
{"_id": "q5", "facts": ["other"]}"#,
    );
    let report = report(&folder, &["--record", "answers-given.jsonl"]).await;
    assert_eq!(report["answers"], 5);
    for (name, figure) in
        [("f1", 0.65), ("with_the_fact", 0.5), ("false_refusals", 0.0), ("right_refusals", 0.0)]
    {
        assert_eq!(report[name], figure, "{name}");
    }
    let recorded = fs::read_to_string(folder.path().join("answers-given.jsonl")).unwrap();
    let first: Value = serde_json::from_str(recorded.lines().next().unwrap()).unwrap();
    assert_eq!((&first["question"], &first["f1"]), (&json!("red apple"), &json!(0.8)));
    assert!(first["passages"].as_array().is_some_and(|passages| !passages.is_empty()), "{first}");
    assert_eq!(recorded.lines().count(), 5);
}

#[tokio::test]
async fn answers_are_compared_with_those_of_an_earlier_evaluation() {
    let folder = collection(
        r#"{"_id": "q1", "answers": ["word0 word1"]}
{"_id": "q2", "answers": ["word2"]}
{"_id": "q3", "answerable": false}
{"_id": "q4", "answers": ["word0"]}
{"_id": "q5", "facts": ["other"]}"#,
    );
    let earlier = folder.path().join("earlier.jsonl");
    let lines = "{\"_id\": \"q1\", \"f1\": 0.5}\n{\"_id\": \"q2\", \"f1\": 0.4}\n{\"_id\": \"q3\"}\n";
    fs::write(&earlier, lines).unwrap();
    let report = report(&folder, &["--against", "earlier.jsonl", "--at-once", "3"]).await;
    for (name, figure) in
        [("answers", 5.0), ("compared", 2.0), ("f1_better", 0.2), ("f1_better_interval", 0.1386)]
    {
        assert_eq!(report[name].as_f64(), Some(figure), "{name}");
    }
    fs::write(&earlier, "{\"_id\": \"q1\"}\nnonsense\n").unwrap();
    let output = evaluate(BINARY, folder.path(), &["--against", "earlier.jsonl"]).await;
    let message = text(&output.stderr);
    assert!(!output.status.success());
    assert!(message.contains("earlier.jsonl:2: not an answer that --record has written"), "{message}");
}

#[tokio::test]
async fn half_of_the_questions_or_a_few_of_them_are_asked() {
    let references = r#"{"_id": "q2", "answers": ["word0 word1"]}
{"_id": "q4", "answers": ["none"]}"#;
    let folder = collection(references);
    let half = report(&folder, &["--half", "odd"]).await;
    assert_eq!((&half["answers"], &half["f1"]), (&json!(2), &json!(0.4)));
    let few = report(&folder, &["--half", "odd", "--most", "1"]).await;
    assert_eq!((&few["answers"], &few["f1"]), (&json!(1), &json!(0.8)));
    let output = evaluate(BINARY, folder.path(), &[]).await;
    let message = text(&output.stderr);
    assert!(!output.status.success());
    assert!(message.contains("answers.jsonl: nothing for question \"q1\""), "{message}");

    let folder = collection(&references.replace("\"answers\": [\"none\"]", "\"answerable\": false"));
    let answerable = report(&folder, &["--half", "odd", "--answerable"]).await;
    assert_eq!((&answerable["answers"], &answerable["f1"]), (&json!(1), &json!(0.8)));
}
