//! The passages of a chat: bounded by filters, by a score threshold and by `top_k`.

use serde_json::{Value, json};

use crate::support::builder::TestServerBuilder;
use crate::support::http::Request;
use crate::support::test_server::TestServer;

/// Pages about water that differ in every filterable field.
async fn library() -> TestServer {
    let server = TestServerBuilder::with_model("fake,tokens=2").with_document_retrieval().start().await;
    let page = |path: &str, text: &str, metadata: Value| json!({"repoUrl": "https://r", "filePath": path, "text": text, "metadata": metadata});
    let documents = [
        page("rivers.md", "# Rivers\n\n## Course\n\nwater runs down rivers", json!({"team": "core"})),
        page("lakes.md", "# Lakes\n\n## Depth\n\nwater runs into lakes", json!({"team": "web"})),
        page("wells.md", "# Wells\n\nwater runs from wells", json!({"url": "/docs/wells"})),
    ];
    let ingest = Request::post_json("/api/documents/ingest", &json!({"documents": documents}));
    assert_eq!(server.call(ingest).await.json(200).await["successCount"], 3);
    server
}

/// Checks the titles of the passages, in any order.
async fn check(server: &TestServer, bounds: &Value, expected: &[&str]) {
    let mut body = json!({"query": "water runs"});
    body.as_object_mut().expect("an object").extend(bounds.as_object().expect("an object").clone());
    let answer = server.chat(&body).await;
    let sources = answer["sources"].as_array().expect("sources are a list");
    let mut titles: Vec<_> =
        sources.iter().map(|source| source["page_title"].as_str().expect("a title")).collect();
    titles.sort_unstable();
    assert_eq!(titles, expected, "{bounds}");
    assert_eq!(answer["metadata"]["chunks_retrieved"], expected.len(), "{bounds}");
    if expected.is_empty() {
        assert_eq!(answer["answer"], "Nothing was found in the documents for this question.", "{bounds}");
    }
}

#[tokio::test]
async fn each_filter_keeps_the_documents_that_match() {
    let server = library().await;
    let check = async |filters: Value, expected: &[&str]| {
        check(&server, &json!({"filters": filters}), expected).await;
    };
    check(json!({}), &["Lakes", "Rivers", "Wells"]).await;
    check(json!({"page_title": "Lakes"}), &["Lakes"]).await;
    check(json!({"page_title": ["Lakes", "Wells", "Seas"]}), &["Lakes", "Wells"]).await;
    check(json!({"section_heading": "Course"}), &["Rivers"]).await;
    check(json!({"section_heading": "Introduction"}), &["Wells"]).await;
    check(json!({"source_url": "/docs/wells"}), &["Wells"]).await;
    check(json!({"source_url": ["https://r/lakes.md", "/docs/wells"]}), &["Lakes", "Wells"]).await;
    check(json!({"metadata.team": ["core", "web"], "page_title": "Rivers"}), &["Rivers"]).await;
    check(json!({"metadata.team": "core", "page_title": "Lakes"}), &[]).await;
}

#[tokio::test]
async fn a_score_threshold_and_top_k_bound_the_passages() {
    let server = library().await;
    check(&server, &json!({"score_threshold": 0.0}), &["Lakes", "Rivers", "Wells"]).await;
    check(&server, &json!({"score_threshold": 1.0}), &[]).await;
    let one = server.chat(&json!({"query": "water runs down rivers", "top_k": 1})).await;
    let best = &one["sources"][0];
    assert_eq!((one["sources"].as_array().map(Vec::len), &best["page_title"]), (Some(1), &json!("Rivers")));
    let score = best["relevance_score"].as_f64().expect("a score is a number");
    let least = json!({"query": "water runs down rivers", "score_threshold": score - 0.001});
    let sources = server.chat(&least).await["sources"].clone();
    let scores =
        sources.as_array().expect("sources are a list").iter().map(|source| &source["relevance_score"]);
    assert!(scores.clone().count() >= 1, "{sources}");
    assert!(
        scores.into_iter().all(|found| found.as_f64().is_some_and(|found| found >= score - 0.001)),
        "{sources}"
    );
}
