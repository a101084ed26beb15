//! `wellspring eval`: it agrees with a collection computed by hand, and says what is wrong with one that it cannot
//! read.

use std::collections::HashMap;
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
async fn people_get_a_table() {
    let ran = eval(&[BY_HAND]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for words in ["eval: 4 questions, 15 documents in 15 chunks", "nDCG@10", "default           0.6227"] {
        assert!(ran.out.contains(words), "{words:?} is not in\n{}", ran.out);
    }
}

#[tokio::test]
async fn documents_can_be_cut_into_smaller_chunks() {
    let home = collection("");
    let text = "Apples are red. ".repeat(60);
    home.write("corpus.jsonl", &json!({"_id": "d1", "title": "Apples", "text": text}).to_string());
    home.write("queries.jsonl", r#"{"_id": "q1", "text": "red apples"}"#);
    home.write("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n");
    let fake = FakeModel::start().await;
    let chunks = async |arguments: &[&str]| {
        let ran = home.run(&[&["eval", ".", "--json"], arguments].concat(), &embedding_counts(&fake)).await;
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
        report["chunks"].as_u64().unwrap()
    };
    let (usual, small) = (chunks(&[]).await, chunks(&["--chunk-tokens", "40"]).await);
    assert!(usual < small, "{usual} {small}");
}

#[tokio::test]
async fn what_is_wrong_with_a_collection_is_told_with_its_line() {
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

#[tokio::test]
async fn answers_are_held_against_those_that_people_gave() {
    // Every answer is "word0 word1 word2": 4/5 against the first reference, 2/4 against the best of the second's.
    let (ran, home) = eval_answers(
        r#"{"_id": "q1", "answers": ["word0 word1"]}
{"_id": "q2", "answers": ["none", "word2"]}
{"_id": "q3", "answerable": false}
{"_id": "q4", "facts": ["other", "`WORD1`"]}
{"_id": "q5", "facts": ["other"]}"#,
        &["--record", "answers-given.jsonl"],
    )
    .await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["answers"], 5);
    for (name, figure) in
        [("f1", 0.65), ("with_the_fact", 0.5), ("false_refusals", 0.0), ("right_refusals", 0.0)]
    {
        assert_eq!(report[name], figure, "{name}");
    }
    let recorded = fs::read_to_string(home.path("answers-given.jsonl")).unwrap();
    let first: Value = serde_json::from_str(recorded.lines().next().unwrap()).unwrap();
    assert_eq!((&first["question"], &first["f1"]), (&json!("red apple"), &json!(0.8)));
    assert_eq!(recorded.lines().count(), 5);
}

#[tokio::test]
async fn answers_are_held_against_those_of_an_earlier_evaluation() {
    let references = r#"{"_id": "q1", "answers": ["word0 word1"]}
{"_id": "q2", "answers": ["word2"]}
{"_id": "q3", "answerable": false}
{"_id": "q4", "answers": ["word0"]}
{"_id": "q5", "facts": ["other"]}"#;
    let home = collection(references);
    home.write(
        "earlier.jsonl",
        "{\"_id\": \"q1\", \"f1\": 0.5}\n{\"_id\": \"q2\", \"f1\": 0.4}\n{\"_id\": \"q3\"}\n",
    );
    let ran = eval_answers_in(&home, &["--against", "earlier.jsonl", "--at-once", "3"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    for (name, figure) in
        [("answers", 5.0), ("compared", 2.0), ("f1_better", 0.2), ("f1_better_interval", 0.1386)]
    {
        assert_eq!(report[name].as_f64(), Some(figure), "{name}");
    }
    home.write("earlier.jsonl", "{\"_id\": \"q1\"}\nnonsense\n");
    let ran = eval_answers_in(&home, &["--against", "earlier.jsonl"]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("earlier.jsonl:2: not an answer that --record has written"), "{}", ran.err);
}

#[tokio::test]
async fn half_of_the_questions_or_a_few_of_them_can_be_asked() {
    let references = r#"{"_id": "q2", "answers": ["word0 word1"]}
{"_id": "q4", "answers": ["none"]}"#;
    let (ran, _) = eval_answers(references, &["--half", "odd"]).await;
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["answers"], &report["f1"]), (&json!(2), &json!(0.4)), "{}", ran.err);
    let (ran, _) = eval_answers(references, &["--half", "odd", "--most", "1"]).await;
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["answers"], &report["f1"]), (&json!(1), &json!(0.8)), "{}", ran.err);
    let unanswerable = references.replace("\"answers\": [\"none\"]", "\"answerable\": false");
    let (ran, _) = eval_answers(&unanswerable, &["--half", "odd", "--answerable"]).await;
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["answers"], &report["f1"]), (&json!(1), &json!(0.8)), "{}", ran.err);
    let (ran, _) = eval_answers(references, &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("answers.jsonl: nothing for question \"q1\""), "{}", ran.err);
}

#[test]
fn every_fact_about_the_documentation_is_in_its_document() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/documentation");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let plain = |text: &str| {
        let text = text.to_lowercase().replace(['`', '*', '"'], "");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let judged: HashMap<String, String> = read("qrels.tsv")
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once('\t'))
        .map(|(question, rest)| (question.to_owned(), rest.split('\t').next().unwrap().to_owned()))
        .collect();
    let answers = read("answers.jsonl");
    for line in answers.lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        let document = &judged[answer["_id"].as_str().unwrap()];
        let text = plain(&read(&format!("pages/{document}")));
        let facts = answer["facts"].as_array().unwrap();
        let is_there = |fact: &Value| text.contains(&plain(fact.as_str().unwrap()));
        assert!(facts.iter().any(is_there), "{document} has none of {facts:?}");
    }
    assert!(answers.lines().count() >= 30);
}

/// An evaluation whose vectors are counts of words.
async fn eval(arguments: &[&str]) -> Ran {
    let fake = FakeModel::start().await;
    Home::new().run(&[&["eval"], arguments].concat(), &embedding_counts(&fake)).await
}

/// An evaluation of answers, which are all the same, and the folder it was in.
async fn eval_answers(references: &str, arguments: &[&str]) -> (Ran, Home) {
    let home = collection(references);
    (eval_answers_in(&home, arguments).await, home)
}

/// A folder with a collection whose answers are these.
fn collection(references: &str) -> Home {
    let home = Home::new();
    for name in ["corpus.jsonl", "queries.jsonl", "qrels.tsv"] {
        home.write(name, &fs::read_to_string(Path::new(BY_HAND).join(name)).expect("the fixture is there"));
    }
    home.write("answers.jsonl", references);
    home
}

async fn eval_answers_in(home: &Home, arguments: &[&str]) -> Ran {
    let fake = FakeModel::start().await;
    let provider = [
        ("WELLSPRING__PROVIDERS__LOCAL__KIND", "ollama"),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,words,tokens=3"),
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
    ];
    let variables = [provider, embedding_counts(&fake)].concat();
    home.run(&[&["eval", ".", "--json", "--answers"], arguments].concat(), &variables).await
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

#[tokio::test]
async fn what_is_found_for_questions_of_a_conversation_is_measured_in_three_forms() {
    let home = Home::new();
    home.write(
        "corpus.jsonl",
        "{\"_id\": \"red\", \"text\": \"Red apples are sweet.\"}\n{\"_id\": \"sky\", \"text\": \"The sky is wide.\"}\n",
    );
    home.write(
        "dialogues.jsonl",
        r#"{"_id": "a", "turns": [{"question": "Where do red apples grow?", "document": "red", "facts": ["red"], "answer": "On trees."}, {"question": "And how do they taste?", "standalone": "How do red apples taste?", "document": "red", "facts": ["`SWEET`"]}, {"question": "Is the sky wide?", "document": "sky", "facts": ["never said"]}]}
"#,
    );
    let fake = FakeModel::start().await;
    let embedding = [
        ("WELLSPRING__EMBEDDING__KIND", "ollama"),
        ("WELLSPRING__EMBEDDING__MODEL", "fake,dimension=16"),
        ("WELLSPRING__EMBEDDING__BASE_URL", fake.url()),
    ];
    let ran = home.run(&["eval", ".", "--dialogues", "--json"], &embedding).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let (follow_up, alone) = (&report["of_longer"], &report["stands_alone"]);
    assert_eq!((&follow_up["questions"], &follow_up["rewritten"]), (&json!(1), &json!(1)));
    assert_eq!((&alone["questions"], &alone["rewritten"]), (&json!(1), &json!(0)));
    assert_eq!(follow_up["passage_recall@5"]["rewritten"], 1.0);
    assert_eq!(alone["document_recall@5"]["as_asked"], 1.0);
    assert_eq!(alone["passage_recall@5"]["as_asked"], 0.0, "the document without the fact does not count");
    let ran = home.run(&["eval", ".", "--dialogues"], &embedding).await;
    assert!(ran.out.contains("goes on, in a longer one"), "{}", ran.out);
    home.write(
        "dialogues.jsonl",
        r#"{"_id": "a", "turns": [{"question": "?", "document": "blue", "facts": []}]}"#,
    );
    let ran = home.run(&["eval", ".", "--dialogues"], &embedding).await;
    assert!(ran.err.contains("there is no document \"blue\" in corpus.jsonl"), "{}", ran.err);
}

#[test]
fn every_dialogue_is_about_the_documentation_and_its_facts_are_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/dialogues");
    let plain = |text: &str| {
        let text = text.to_lowercase().replace(['`', '*', '"'], "");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (mut two, mut five) = (0, 0);
    for line in fs::read_to_string(folder.join("dialogues.jsonl")).unwrap().lines() {
        let dialogue: Value = serde_json::from_str(line).unwrap();
        let turns = dialogue["turns"].as_array().unwrap();
        let goes_on = turns[1..].iter().any(|turn| turn["standalone"].is_string());
        two += usize::from(goes_on && turns.len() == 2);
        five += usize::from(goes_on && turns.len() >= 5);
        for turn in turns {
            let document = turn["document"].as_str().unwrap();
            let text =
                plain(&fs::read_to_string(folder.join("../documentation/pages").join(document)).unwrap());
            for fact in turn["facts"].as_array().unwrap() {
                assert!(
                    text.contains(&plain(fact.as_str().unwrap())),
                    "{document} has not {fact}: {dialogue}"
                );
            }
        }
    }
    assert!(two >= 50 && five >= 8, "{two} of two turns and {five} of five");
}
