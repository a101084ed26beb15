//! `wellspring eval`: its figures agree with those computed by hand, and an unreadable collection is an error with the
//! line.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testing::FakeModel;

use crate::binary::{Home, Ran};

/// `fixtures/eval`, whose README has the computation.
const BY_HAND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/eval");

#[tokio::test]
async fn figures_agree_with_those_computed_by_hand() {
    let ran = eval(&[BY_HAND, "--json", "--parts"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let expected = json!([0.6227, 0.75, 1.0, 0.625]);
    assert_eq!(figures(&report), expected);
    for part in ["lexical", "dense", "reciprocal_rank", "weighted"] {
        assert_eq!(figures(&report["parts"][part]), expected, "{part}");
    }
    assert_eq!(report["collection"], "eval");
    assert_eq!((&report["queries"], &report["documents"]), (&json!(4), &json!(15)));
    assert!(report["query_ms_p50"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn the_development_split_has_its_own_questions() {
    let ran = eval(&[BY_HAND, "--json", "--split", "dev"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(figures(&report), json!([0.6309, 1.0, 1.0, 0.5]));
    assert_eq!(report.get("parts"), None);
}

#[tokio::test]
async fn the_default_output_is_a_table() {
    let ran = eval(&[BY_HAND]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for words in ["eval: 4 questions, 15 documents in 15 chunks", "nDCG@10", "default           0.6227"] {
        assert!(ran.out.contains(words), "{words:?} is not in\n{}", ran.out);
    }
}

#[tokio::test]
async fn an_error_in_a_collection_names_its_file_and_line() {
    for (file, text, words) in [
        ("corpus.jsonl", "{\"_id\": \"d1\", \"text\": \"red\"}\n{\"_id\": 2}\n", "corpus.jsonl, line 2: "),
        ("corpus.jsonl", "{\"_id\": \"d1\", \"text\": \"\"}\n{\"_id\": \"d1\", \"text\": \"\"}\n", "\"d1\""),
        ("queries.jsonl", "red apple\n", "queries.jsonl, line 1: "),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1 d1 1\n", "qrels.tsv, line 2: expected a query-id"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t-1\n", "qrels.tsv, line 2: the score \"-1\""),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td99\t1\n", "line 2: there is no document \"d99\""),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq99\td1\t1\n", "line 2: there is no question \"q99\""),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\n", "qrels.tsv: no question has a judgement"),
    ] {
        let home = Home::new();
        for name in ["corpus.jsonl", "queries.jsonl", "qrels.tsv"] {
            home.write(
                name,
                &fs::read_to_string(Path::new(BY_HAND).join(name)).expect("the fixture is there"),
            );
        }
        home.write(file, text);
        let ran = home.run(&["eval", "."], &[]).await;
        assert_eq!(ran.code, Some(1), "{file}: {text}");
        assert!(ran.err.contains(words), "{words:?} is not in {}", ran.err);
    }
    let ran = Home::new().run(&["eval", "nowhere"], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("nowhere/corpus.jsonl: "), "{}", ran.err);
}

/// Runs an evaluation whose vectors are counts of words.
async fn eval(arguments: &[&str]) -> Ran {
    let fake = FakeModel::start().await;
    Home::new().run(&[&["eval"], arguments].concat(), &embedding_counts(&fake)).await
}

fn embedding_counts(fake: &FakeModel) -> [(&str, &str); 3] {
    [
        ("WELLSPRING__EMBEDDING__KIND", "ollama"),
        ("WELLSPRING__EMBEDDING__MODEL", "fake,dimension=4096"),
        ("WELLSPRING__EMBEDDING__BASE_URL", fake.url()),
    ]
}

fn figures(report: &Value) -> Value {
    ["ndcg@10", "recall@10", "recall@100", "mrr@10"].map(|name| report[name].clone()).as_slice().into()
}
