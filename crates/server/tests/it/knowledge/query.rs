//! `POST /api/query`.

use serde_json::{Value, json};

use super::{QUERY, document};
use crate::client::Call;
use crate::harness::Setup;

const PAGE: &str = "# Pumps\n\n## Water\n\nPumps lift water.\n\n## Oil\n\nOil keeps pumps running.\n";

#[tokio::test]
async fn a_passage_is_told_with_its_document_its_lines_and_its_score() {
    let world = Setup::of("fake").start().await;
    let mut given = document("pumps.md", PAGE);
    given["metadata"] = json!({"team": "core"});
    let id = &world.ingest(&[given]).await[0];
    let hits = world.query(&json!({"query": "pumps"})).await;
    assert!(!hits.is_empty());
    for hit in &hits {
        let names: Vec<_> = hit.as_object().expect("an object").keys().map(String::as_str).collect();
        let expected = [
            "documentId",
            "filePath",
            "id",
            "lineEnd",
            "lineStart",
            "metadata",
            "repoUrl",
            "similarityScore",
            "text",
            "title",
        ];
        assert_eq!(names, expected);
        assert_eq!((&hit["documentId"], &hit["filePath"]), (&json!(id), &json!("pumps.md")));
        assert_eq!((&hit["repoUrl"], &hit["title"]), (&json!("https://git.example/wiki"), &json!("Pumps")));
        assert_eq!(hit["metadata"], json!({"team": "core"}));
        let score = hit["similarityScore"].as_f64().expect("a score");
        assert!((0.0..=1.0).contains(&score), "{score}");
        check_lines(hit);
    }
}

/// The passage is in its document at the lines that are told.
fn check_lines(hit: &Value) {
    let line = |name: &str| usize::try_from(hit[name].as_u64().expect("a line")).expect("few lines");
    let lines: Vec<_> =
        PAGE.lines().skip(line("lineStart") - 1).take(line("lineEnd") + 1 - line("lineStart")).collect();
    let text = hit["text"].as_str().expect("a text");
    assert_eq!(text, lines.join("\n"));
}

#[tokio::test]
async fn as_many_passages_are_told_as_are_asked_for_and_the_best_come_first() {
    let world = Setup::of("fake").start().await;
    let documents: Vec<_> = (0..15)
        .map(|number| document(&format!("{number:02}.md"), &format!("water {}", "stone ".repeat(number))))
        .collect();
    world.ingest(&documents).await;
    assert_eq!(world.query(&json!({"query": "water"})).await.len(), 10, "ten if nobody says");
    let all = world.query(&json!({"query": "water", "k": 100})).await;
    assert_eq!((all.len(), &all[0]["filePath"]), (15, &json!("00.md")));
    assert_eq!(world.query(&json!({"query": "water", "k": 3.0})).await, all[..3]);
    assert_eq!(world.query(&json!({"query": "water", "k": null})).await, all[..10]);
}

#[tokio::test]
async fn the_whole_text_is_told_if_it_is_wanted() {
    let world = Setup::of("fake").start().await;
    let text = format!(
        "# One\n\n{}\n\n# Two\n\n{}\n",
        "water runs down. ".repeat(120),
        "cats sleep long. ".repeat(120)
    );
    world.ingest(&[document("a.md", &text)]).await;
    let piece = &world.query(&json!({"query": "cats", "k": 1})).await[0];
    assert!(piece["text"].as_str().expect("a text").len() < text.len());
    let whole = &world.query(&json!({"query": "cats", "k": 1, "includeFullText": true})).await[0];
    assert_eq!(whole["text"], text.as_str());
    assert_eq!((&whole["id"], &whole["lineStart"]), (&piece["id"], &piece["lineStart"]));
}

#[tokio::test]
async fn more_whole_texts_than_the_server_takes_in_at_once_are_not_told() {
    let setup = Setup::of("fake").settings(|settings| settings.ingest_body_bytes = 10_000);
    let world = setup.start().await;
    let text = format!(
        "# One\n\n{}\n\n# Two\n\n{}\n",
        "water runs down. ".repeat(170),
        "water runs deep. ".repeat(170)
    );
    world.ingest(&[document("a.md", &text)]).await;
    let query = |k: usize, full: bool| json!({"query": "water", "k": k, "includeFullText": full});
    assert!(world.query(&query(100, false)).await.len() > 1, "it is found more than once");
    assert_eq!(world.query(&query(1, true)).await[0]["text"], text.as_str());
    let refusal = world.try_query(&query(100, true)).await.refusal(400, "invalid_request").await;
    let message = refusal["message"].as_str().expect("a text");
    assert!(message.contains("ask for fewer (k) or without includeFullText"), "{message}");
}

#[tokio::test]
async fn why_a_passage_stands_where_it_does_is_told_if_it_is_wanted() {
    let world = Setup::of("fake").start().await;
    world.ingest(&[document("a.md", "water runs down"), document("b.md", "cats sleep")]).await;
    let hits = world.query(&json!({"query": "water", "explain": true})).await;
    assert_eq!(hits.len(), 2);
    for (rank, hit) in (1..).zip(&hits) {
        assert_eq!((&hit["fused"]["rank"], &hit["reranked"]["rank"]), (&json!(rank), &json!(rank)), "{hit}");
        let ranks = ["lexical", "dense"].map(|list| hit[list]["rank"].as_f64());
        let reciprocal: f64 = ranks.iter().flatten().map(|rank| 1.0 / (60.0 + rank)).sum();
        let fused = hit["fused"]["score"].as_f64().expect("a score");
        assert!((fused - reciprocal).abs() < 1e-6, "{hit}");
        let reranked = hit["reranked"]["score"].as_f64().expect("a score");
        assert!((reranked - fused).abs() > 1e-6, "it has a score of its own: {hit}");
    }
    assert_eq!((&hits[0]["lexical"]["rank"], &hits[0]["dense"]["rank"]), (&json!(1), &json!(1)));
    assert_eq!(hits[1].get("lexical"), None, "no word of it is in the query: {}", hits[1]);
}

#[tokio::test]
async fn an_empty_knowledge_base_has_no_passages() {
    let world = Setup::of("fake").start().await;
    assert_eq!(world.query(&json!({"query": "water"})).await, [] as [Value; 0]);
}

#[tokio::test]
async fn what_is_wrong_with_a_query_is_named() {
    let setup = Setup::of("fake").settings(|settings| settings.question_chars = 50);
    let world = setup.start().await;
    for (body, words) in [
        (json!({}), "query"),
        (json!({"query": " \n"}), "query is empty"),
        (json!({"query": "x".repeat(51)}), "limits.question_chars"),
        (json!({"query": 5}), "query"),
        (json!({"query": "w", "k": 0}), "k is 0; it must be 1 to 100"),
        (json!({"query": "w", "k": 101}), "k is 101"),
        (json!({"query": "w", "k": "5"}), "k"),
        (json!({"query": "w", "filters": {"colour": "blue"}}), "filters.colour"),
        (json!({"query": "w", "filters": {"title": 5}}), "filters.title"),
        (json!({"query": "w", "explain": "yes"}), "explain"),
    ] {
        let refusal = world.try_query(&body).await.refusal(400, "invalid_request").await;
        assert!(refusal["message"].as_str().expect("a text").contains(words), "{refusal}");
    }
    world.call(Call::post(QUERY, "water")).await.refusal(400, "invalid_request").await;
    world.query(&json!({"query": "é".repeat(50), "unknown": 1})).await;
}

#[tokio::test]
async fn without_an_embedder_nothing_can_be_looked_for_and_that_is_told() {
    let world = Setup::of("fake").without_embedder().start().await;
    assert_eq!(
        world.query(&json!({"query": "water"})).await,
        [] as [Value; 0],
        "there is nothing to find yet"
    );
    world.try_ingest(&json!({"documents": [document("a.md", "water")]})).await.json(200).await;
    let refusal =
        world.try_query(&json!({"query": "water"})).await.refusal(503, "retrieval_unavailable").await;
    let message = refusal["message"].as_str().expect("a text");
    assert!(message.starts_with("embedding the question failed: "), "{message}");
}

#[tokio::test]
async fn a_catalog_that_fails_while_it_is_searched_is_a_failure_of_retrieval() {
    let world = Setup::of("fake").start().await;
    world.ingest(&[document("a.md", "water")]).await;
    world.catalog.fail(true);
    world.try_query(&json!({"query": "water"})).await.refusal(503, "retrieval_unavailable").await;
    world.catalog.fail(false);
    assert_eq!(world.paths(&json!({"query": "water"})).await, ["a.md"]);
}
