//! The filters of a query.

use serde_json::{Value, json};

use super::document;
use crate::support::builder::TestServerBuilder;
use crate::support::test_server::TestServer;

/// Four documents about water that differ in every filterable field.
async fn library() -> TestServer {
    let server = TestServerBuilder::with_model("fake").start().await;
    let mut guide = document("docs/guide.md", "# Guide\n\nwater runs down");
    guide["metadata"] = json!({"team": "core", "level": 1});
    let mut notes = document("docs/deep/notes.md", "# Notes\n\nwater runs down");
    notes["metadata"] = json!({"team": "web", "level": 2});
    let code = document("src/water.rs", "fn water() -> &'static str {\n    \"water runs down\"\n}\n");
    let mut other = document("docs/other.md", "# Guide\n\nwater runs down");
    other["repoUrl"] = json!("https://git.example/other");
    server.ingest(&[guide, notes, code]).await;
    let ours = json!({"documents": [other], "collection": "ours"});
    assert_eq!(server.try_ingest(&ours).await.json(200).await["failureCount"], 0);
    server
}

async fn check(server: &TestServer, filters: &Value, expected: &[&str]) {
    let found = server.paths(&json!({"query": "water runs down", "filters": filters})).await;
    assert_eq!(found, expected, "{filters}");
}

#[tokio::test]
async fn each_filter_keeps_the_documents_that_match() {
    let server = library().await;
    let all = ["docs/deep/notes.md", "docs/guide.md", "docs/other.md", "src/water.rs"];
    check(&server, &json!({}), &all).await;
    check(&server, &json!({"title": null}), &all).await;
    check(&server, &json!({"repoUrl": "https://git.example/other"}), &["docs/other.md"]).await;
    check(&server, &json!({"filePath": "src/water.rs"}), &["src/water.rs"]).await;
    check(&server, &json!({"filePath": "docs/*.md"}), &["docs/guide.md", "docs/other.md"]).await;
    check(&server, &json!({"filePath": "docs/**"}), &all[..3]).await;
    check(&server, &json!({"language": "rust"}), &["src/water.rs"]).await;
    check(&server, &json!({"collection": "ours"}), &["docs/other.md"]).await;
    check(&server, &json!({"title": "Notes"}), &["docs/deep/notes.md"]).await;
    check(&server, &json!({"metadata.team": "core"}), &["docs/guide.md"]).await;
    check(&server, &json!({"metadata.unknown": "core"}), &[]).await;
}

#[tokio::test]
async fn every_field_must_match_one_of_its_values() {
    let server = library().await;
    check(&server, &json!({"title": "Guide"}), &["docs/guide.md", "docs/other.md"]).await;
    check(&server, &json!({"title": "Guide", "collection": "default"}), &["docs/guide.md"]).await;
    check(&server, &json!({"title": "Guide", "collection": "nowhere"}), &[]).await;
    check(
        &server,
        &json!({"title": ["Guide", "Notes"], "collection": "default"}),
        &["docs/deep/notes.md", "docs/guide.md"],
    )
    .await;
    check(&server, &json!({"metadata.team": ["core", "web"]}), &["docs/deep/notes.md", "docs/guide.md"])
        .await;
}

#[tokio::test]
async fn a_filter_finds_documents_that_rank_below_all_others() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let mut documents: Vec<_> =
        (0..150).map(|number| document(&format!("near/{number}.md"), "water runs down")).collect();
    documents.push(document("far.md", "once water was seen among very many stones"));
    server.ingest(&documents).await;
    check(&server, &json!({"filePath": "far.md"}), &["far.md"]).await;
}
