//! Documents and collections: listing, reading, removing.

use serde_json::{Value, json};

use super::{DOCUMENTS, document};
use crate::support::builder::TestServerBuilder;
use crate::support::http::Request;

const UNKNOWN_ID: &str = "0190a5e2-0000-7000-8000-000000000000";

fn path(id: &str) -> String {
    format!("{DOCUMENTS}/{id}")
}

#[tokio::test]
async fn a_document_has_all_its_fields_but_no_vectors() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let mut given = document("docs/pumps.md", "# Pumps\n\nPumps lift water.\n");
    given["metadata"] = json!({"team": "core", "level": 3, "open": true});
    let id = &server.ingest(&[given]).await[0];
    let stored = server.get(&path(id)).await.json(200).await;
    let expected = json!({
        "id": id,
        "source": "api",
        "repoUrl": "https://git.example/wiki",
        "filePath": "docs/pumps.md",
        "title": "Pumps",
        "text": "# Pumps\n\nPumps lift water.\n",
        "metadata": {"team": "core", "level": 3, "open": true},
        "createdAt": stored["createdAt"],
        "updatedAt": stored["updatedAt"],
        "chunkCount": 1,
    });
    assert_eq!(stored, expected);
    for time in ["createdAt", "updatedAt"] {
        let time = stored[time].as_str().expect("a time is text");
        assert!(time.len() == "2026-01-01T00:00:00.000Z".len() && time.ends_with('Z'), "{time}");
    }
}

#[tokio::test]
async fn a_given_title_is_kept() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let mut given = document("a.md", "# Pumps\n");
    given["title"] = json!("All about pumps");
    let id = &server.ingest(&[given]).await[0];
    assert_eq!(server.get(&path(id)).await.json(200).await["title"], "All about pumps");
}

#[tokio::test]
async fn documents_are_listed_in_pages_without_their_texts() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let documents: Vec<_> = (0..25).map(|number| document(&format!("{number}.md"), "water")).collect();
    let mut ids = server.ingest(&documents).await;
    let mut listed = Vec::new();
    for page in 1..=4 {
        let reply = server.get(&format!("{DOCUMENTS}?page={page}&pageSize=10")).await.json(200).await;
        assert_eq!((&reply["page"], &reply["pageSize"]), (&json!(page), &json!(10)));
        assert_eq!(reply["totalCount"], 25);
        let documents = reply["documents"].as_array().expect("a list");
        assert_eq!(documents.len(), [10, 10, 5, 0][page - 1]);
        assert!(documents.iter().all(|document| document.get("text").is_none()), "{reply}");
        listed.extend(documents.iter().map(|document| document["id"].as_str().expect("an id").to_owned()));
    }
    ids.sort();
    listed.sort();
    assert_eq!(listed, ids);
    let first = server.get(DOCUMENTS).await.json(200).await;
    assert_eq!((&first["page"], &first["pageSize"]), (&json!(1), &json!(20)));
}

#[tokio::test]
async fn documents_of_one_repository_can_be_listed() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let mut other = document("b.md", "water");
    other["repoUrl"] = json!("https://git.example/a b&c");
    let ids = server.ingest(&[document("a.md", "water"), other]).await;
    let reply =
        server.get(&format!("{DOCUMENTS}?repoUrl=https%3A%2F%2Fgit.example%2Fa+b%26c")).await.json(200).await;
    assert_eq!((&reply["totalCount"], &reply["documents"][0]["id"]), (&json!(1), &json!(ids[1])));
    let reply = server.get(&format!("{DOCUMENTS}?repoUrl=nowhere")).await.json(200).await;
    assert_eq!((&reply["totalCount"], &reply["documents"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn an_invalid_page_is_refused() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for query in ["page=0", "page=-1", "page=x", "pageSize=0", "pageSize=101", "page=99999999999999999999"] {
        let error = server.get(&format!("{DOCUMENTS}?{query}")).await.error(400, "invalid_request").await;
        let name = query.split('=').next().expect("a name");
        assert!(error["message"].as_str().expect("a text").starts_with(name), "{error}");
    }
}

#[tokio::test]
async fn an_unknown_document_is_not_found() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for id in [UNKNOWN_ID, "no-uuid", "%FF"] {
        server.get(&path(id)).await.error(404, "document_not_found").await;
        server.call(Request::delete(path(id))).await.error(404, "document_not_found").await;
    }
}

#[tokio::test]
async fn a_removed_document_is_no_longer_found() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let ids = server.ingest(&[document("a.md", "water runs"), document("b.md", "water stands")]).await;
    server.call(Request::delete(path(&ids[0]))).await.assert_no_content();
    server.get(&path(&ids[0])).await.error(404, "document_not_found").await;
    server.call(Request::delete(path(&ids[0]))).await.error(404, "document_not_found").await;
    assert_eq!(server.paths(&json!({"query": "water"})).await, ["b.md"]);
    assert_eq!(server.ingest(&[document("a.md", "water runs")]).await, ids[..1], "it has the same id again");
    assert_eq!(server.paths(&json!({"query": "water"})).await, ["a.md", "b.md"]);
}

#[tokio::test]
async fn collections_are_listed_with_their_number_of_documents() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let collections = async || server.get(&path("collections")).await.json(200).await;
    assert_eq!(collections().await, json!({"collections": [], "total_count": 0}));
    server.ingest(&[document("a.md", "water"), document("b.md", "water")]).await;
    let ours = json!({"documents": [document("a.md", "water")], "collection": "ours"});
    server.try_ingest(&ours).await.json(200).await;
    let named =
        |name: &str, count: u64| -> Value { json!({"id": name, "name": name, "document_count": count}) };
    let expected = json!({"collections": [named("default", 2), named("ours", 1)], "total_count": 2});
    assert_eq!(collections().await, expected);
}

#[tokio::test]
async fn a_failing_catalog_is_reported_and_recovers() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let id = &server.ingest(&[document("a.md", "water")]).await[0];
    server.catalog.fail(true);
    for request in [
        Request::get(DOCUMENTS),
        Request::get(path(id)),
        Request::get(path("collections")),
        Request::delete(path(id)),
    ] {
        server.call(request).await.error(503, "storage_unavailable").await;
    }
    server.catalog.fail(false);
    server.call(Request::delete(path(id))).await.assert_no_content();
}
