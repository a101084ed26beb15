//! `POST /api/documents/ingest`.

use serde_json::{Value, json};

use super::{DOCUMENTS, INGEST, document};
use crate::support::builder::TestServerBuilder;
use crate::support::http::Request;

#[tokio::test]
async fn documents_are_searchable_when_the_request_returns() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let documents =
        [document("a.md", "# Pumps\n\nPumps lift water."), document("b.md", "# Cats\n\nCats sleep.")];
    let reply = server.try_ingest(&json!({"documents": documents})).await.json(200).await;
    let names: Vec<_> = reply.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected =
        ["successCount", "failureCount", "totalChunks", "durationMs", "ingestedDocumentIds", "errors"];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!((&reply["successCount"], &reply["failureCount"]), (&json!(2), &json!(0)));
    assert_eq!((&reply["totalChunks"], &reply["errors"]), (&json!(2), &json!([])));
    assert!(reply["durationMs"].is_u64(), "{reply}");
    let hits = server.query(&json!({"query": "Pumps lift water.", "k": 1})).await;
    assert_eq!(hits[0]["documentId"], reply["ingestedDocumentIds"][0]);
    assert!(hits[0]["similarityScore"].as_f64().expect("a score") > 0.0, "its vector is there: {hits:?}");
}

#[tokio::test]
async fn an_unchanged_document_keeps_its_id_and_is_not_embedded_again() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let documents = [document("a.md", "water runs down")];
    let first = server.ingest(&documents).await;
    let embedded = server.fake.embeddings().len();
    assert_eq!(server.ingest(&documents).await, first);
    assert_eq!(server.fake.embeddings().len(), embedded);
    assert_eq!(server.get(DOCUMENTS).await.json(200).await["totalCount"], 1);
}

#[tokio::test]
async fn a_changed_document_replaces_the_older_one() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let first = server.ingest(&[document("a.md", "water runs down")]).await;
    assert_eq!(server.ingest(&[document("a.md", "cats sleep long")]).await, first);
    let texts: Vec<Value> =
        server.query(&json!({"query": "water"})).await.iter().map(|hit| hit["text"].clone()).collect();
    assert_eq!(texts, ["cats sleep long"]);
}

#[tokio::test]
async fn repository_path_and_collection_identify_a_document() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let same = document("a.md", "water runs down");
    let mut elsewhere = same.clone();
    elsewhere["repoUrl"] = json!("https://git.example/other");
    let mut ids = server.ingest(&[same.clone(), elsewhere, document("b.md", "water runs down")]).await;
    let ingested =
        server.try_ingest(&json!({"documents": [same], "collection": "ours"})).await.json(200).await;
    ids.push(ingested["ingestedDocumentIds"][0].as_str().expect("an id").to_owned());
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn a_document_that_cannot_be_ingested_does_not_stop_the_others() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let documents = [document("bad.bin", "a\u{0}b\u{0}c"), document("good.md", "water runs down")];
    let reply = server.try_ingest(&json!({"documents": documents})).await.json(200).await;
    assert_eq!((&reply["successCount"], &reply["failureCount"]), (&json!(1), &json!(1)));
    let error = &reply["errors"][0];
    assert_eq!(error["documentIdentifier"], "https://git.example/wiki/bad.bin");
    assert_eq!(error["stage"], "parsing");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    assert_eq!(server.paths(&json!({"query": "water"})).await, ["good.md"]);
}

#[tokio::test]
async fn without_an_embedder_every_document_fails_at_the_embedding_stage() {
    let server = TestServerBuilder::with_model("fake").without_embedder().start().await;
    let reply = server.try_ingest(&json!({"documents": [document("a.md", "water")]})).await.json(200).await;
    assert_eq!((&reply["successCount"], &reply["failureCount"]), (&json!(0), &json!(1)));
    assert_eq!(reply["errors"][0]["stage"], "embedding");
    let message = reply["errors"][0]["message"].as_str().expect("it says why");
    assert!(message.starts_with("embedding: "), "{message}");
}

#[tokio::test]
async fn an_invalid_field_of_an_ingest_request_is_named() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let many = vec![document("a.md", "x"); 1_001];
    for (body, words) in [
        (json!({}), "documents"),
        (json!({"documents": []}), "1 to 1000"),
        (json!({"documents": many}), "1 to 1000"),
        (json!({"documents": "none"}), "documents"),
        (json!({"documents": [{"repoUrl": "r", "filePath": "f"}]}), "documents[0]"),
        (json!({"documents": [{"repoUrl": "r", "filePath": "f", "text": 5}]}), "documents[0].text"),
        (json!({"documents": [{"repoUrl": "", "filePath": "f", "text": "t"}]}), "documents[0].repoUrl"),
        (json!({"documents": [document("a.md", "x")], "collection": " "}), "collection"),
    ] {
        let error = server.try_ingest(&body).await.error(400, "invalid_request").await;
        assert!(error["message"].as_str().expect("a text").contains(words), "{error}");
    }
    server.call(Request::post(INGEST, "{\"documents\": [")).await.error(400, "invalid_request").await;
    assert_eq!(server.get(DOCUMENTS).await.json(200).await["totalCount"], 0);
}

#[tokio::test]
async fn ingest_bodies_have_their_own_size_limit() {
    let builder = TestServerBuilder::with_model("fake").settings(|settings| {
        settings.body_bytes = 1_000;
        settings.ingest_body_bytes = 10_000;
    });
    let server = builder.start().await;
    server.ingest(&[document("a.md", &"water ".repeat(500))]).await;
    let body = json!({"documents": [document("a.md", &"water ".repeat(5_000))]});
    let error = server.try_ingest(&body).await.error(413, "body_too_large").await;
    assert!(error["message"].as_str().expect("a text").contains("limits.ingest_body_bytes"), "{error}");
    server.try_query(&json!({"query": "water ".repeat(500)})).await.error(413, "body_too_large").await;
}
