//! `POST /api/query`.

use serde_json::{Value, json};

use super::{QUERY, document};
use crate::support::builder::TestServerBuilder;
use crate::support::http::Request;

const PAGE: &str = "# Pumps\n\n## Water\n\nPumps lift water.\n\n## Oil\n\nOil keeps pumps running.\n";

#[tokio::test]
async fn a_passage_has_its_document_its_lines_and_its_score() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let mut given = document("pumps.md", PAGE);
    given["metadata"] = json!({"team": "core"});
    let id = &server.ingest(&[given]).await[0];
    let hits = server.query(&json!({"query": "pumps"})).await;
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

/// Checks that a passage is in its document at its lines.
fn check_lines(hit: &Value) {
    let line = |name: &str| usize::try_from(hit[name].as_u64().expect("a line")).expect("few lines");
    let lines: Vec<_> =
        PAGE.lines().skip(line("lineStart") - 1).take(line("lineEnd") + 1 - line("lineStart")).collect();
    let text = hit["text"].as_str().expect("a text");
    assert_eq!(text, lines.join("\n"));
}

#[tokio::test]
async fn the_best_k_passages_are_returned_best_first() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let documents: Vec<_> = (0..15)
        .map(|number| document(&format!("{number:02}.md"), &format!("water {}", "stone ".repeat(number))))
        .collect();
    server.ingest(&documents).await;
    assert_eq!(server.query(&json!({"query": "water"})).await.len(), 10, "ten by default");
    let all = server.query(&json!({"query": "water", "k": 100})).await;
    assert_eq!((all.len(), &all[0]["filePath"]), (15, &json!("00.md")));
    assert_eq!(server.query(&json!({"query": "water", "k": 3.0})).await, all[..3]);
    assert_eq!(server.query(&json!({"query": "water", "k": null})).await, all[..10]);
}

#[tokio::test]
async fn the_whole_text_is_returned_on_request() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let text = format!(
        "# One\n\n{}\n\n# Two\n\n{}\n",
        "water runs down. ".repeat(120),
        "cats sleep long. ".repeat(120)
    );
    server.ingest(&[document("a.md", &text)]).await;
    let passage = &server.query(&json!({"query": "cats", "k": 1})).await[0];
    assert!(passage["text"].as_str().expect("a text").len() < text.len());
    let whole = &server.query(&json!({"query": "cats", "k": 1, "includeFullText": true})).await[0];
    assert_eq!(whole["text"], text.as_str());
    assert_eq!((&whole["id"], &whole["lineStart"]), (&passage["id"], &passage["lineStart"]));
}

#[tokio::test]
async fn whole_texts_beyond_the_ingest_limit_are_refused() {
    let builder =
        TestServerBuilder::with_model("fake").settings(|settings| settings.ingest_body_bytes = 10_000);
    let server = builder.start().await;
    let text = format!(
        "# One\n\n{}\n\n# Two\n\n{}\n",
        "water runs down. ".repeat(170),
        "water runs deep. ".repeat(170)
    );
    server.ingest(&[document("a.md", &text)]).await;
    let query = |k: usize, full: bool| json!({"query": "water", "k": k, "includeFullText": full});
    assert!(server.query(&query(100, false)).await.len() > 1, "it has several passages");
    assert_eq!(server.query(&query(1, true)).await[0]["text"], text.as_str());
    let error = server.try_query(&query(100, true)).await.error(400, "invalid_request").await;
    let message = error["message"].as_str().expect("a text");
    assert!(message.contains("ask for fewer (k) or without includeFullText"), "{message}");
}

#[tokio::test]
async fn the_ranks_of_a_passage_are_explained_on_request() {
    let server = TestServerBuilder::with_model("fake").start().await;
    server.ingest(&[document("a.md", "water runs down"), document("b.md", "cats sleep")]).await;
    let hits = server.query(&json!({"query": "water", "explain": true})).await;
    assert_eq!(hits.len(), 2);
    for (rank, hit) in (1..).zip(&hits) {
        assert_eq!((&hit["fused"]["rank"], &hit["reranked"]["rank"]), (&json!(rank), &json!(rank)), "{hit}");
        let ranks = ["lexical", "dense"].map(|list| hit[list]["rank"].as_f64());
        let reciprocal: f64 = ranks.iter().flatten().map(|rank| 1.0 / (60.0 + rank)).sum();
        let fused = hit["fused"]["score"].as_f64().expect("a score");
        assert!((fused - reciprocal).abs() < 1e-6, "{hit}");
        let reranked = hit["reranked"]["score"].as_f64().expect("a score");
        assert!((reranked - fused).abs() > 1e-6, "reranking has its own score: {hit}");
    }
    assert_eq!((&hits[0]["lexical"]["rank"], &hits[0]["dense"]["rank"]), (&json!(1), &json!(1)));
    assert_eq!(hits[1].get("lexical"), None, "it has no word of the query: {}", hits[1]);
}

#[tokio::test]
async fn an_empty_knowledge_base_has_no_passages() {
    let server = TestServerBuilder::with_model("fake").start().await;
    assert_eq!(server.query(&json!({"query": "water"})).await, [] as [Value; 0]);
}

#[tokio::test]
async fn an_invalid_field_of_a_query_is_named() {
    let builder = TestServerBuilder::with_model("fake").settings(|settings| settings.question_chars = 50);
    let server = builder.start().await;
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
        let error = server.try_query(&body).await.error(400, "invalid_request").await;
        assert!(error["message"].as_str().expect("a text").contains(words), "{error}");
    }
    server.call(Request::post(QUERY, "water")).await.error(400, "invalid_request").await;
    server.query(&json!({"query": "é".repeat(50), "unknown": 1})).await;
}

#[tokio::test]
async fn without_an_embedder_a_query_fails_as_embedding_failed() {
    let server = TestServerBuilder::with_model("fake").without_embedder().start().await;
    assert_eq!(
        server.query(&json!({"query": "water"})).await,
        [] as [Value; 0],
        "there is nothing to find yet"
    );
    server.try_ingest(&json!({"documents": [document("a.md", "water")]})).await.json(200).await;
    let error = server.try_query(&json!({"query": "water"})).await.error(503, "retrieval_unavailable").await;
    let message = error["message"].as_str().expect("a text");
    assert!(message.starts_with("embedding the question failed: "), "{message}");
}

#[tokio::test]
async fn a_catalog_that_fails_during_a_search_is_a_retrieval_failure() {
    let server = TestServerBuilder::with_model("fake").start().await;
    server.ingest(&[document("a.md", "water")]).await;
    server.catalog.fail(true);
    server.try_query(&json!({"query": "water"})).await.error(503, "retrieval_unavailable").await;
    server.catalog.fail(false);
    assert_eq!(server.paths(&json!({"query": "water"})).await, ["a.md"]);
}
