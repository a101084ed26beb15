//! `POST /api/documents/ingest`.

use serde_json::{Value, json};

use super::{DOCUMENTS, INGEST, document};
use crate::client::Call;
use crate::harness::Setup;

#[tokio::test]
async fn documents_are_found_when_the_call_is_answered() {
    let world = Setup::of("fake").start().await;
    let documents =
        [document("a.md", "# Pumps\n\nPumps lift water."), document("b.md", "# Cats\n\nCats sleep.")];
    let reply = world.try_ingest(&json!({"documents": documents})).await.json(200).await;
    let names: Vec<_> = reply.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected =
        ["successCount", "failureCount", "totalChunks", "durationMs", "ingestedDocumentIds", "errors"];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!((&reply["successCount"], &reply["failureCount"]), (&json!(2), &json!(0)));
    assert_eq!((&reply["totalChunks"], &reply["errors"]), (&json!(2), &json!([])));
    assert!(reply["durationMs"].is_u64(), "{reply}");
    let hits = world.query(&json!({"query": "who lifts water?", "k": 1})).await;
    assert_eq!(hits[0]["documentId"], reply["ingestedDocumentIds"][0]);
    assert!(hits[0]["similarityScore"].as_f64().expect("a score") > 0.0, "its vector is there: {hits:?}");
}

#[tokio::test]
async fn the_same_document_again_is_the_same_one_and_is_not_embedded_again() {
    let world = Setup::of("fake").start().await;
    let documents = [document("a.md", "water runs down")];
    let first = world.ingest(&documents).await;
    let embedded = world.fake.embeddings().len();
    assert_eq!(world.ingest(&documents).await, first);
    assert_eq!(world.fake.embeddings().len(), embedded);
    assert_eq!(world.get(DOCUMENTS).await.json(200).await["totalCount"], 1);
}

#[tokio::test]
async fn a_changed_document_takes_the_place_of_the_older_one() {
    let world = Setup::of("fake").start().await;
    let first = world.ingest(&[document("a.md", "water runs down")]).await;
    assert_eq!(world.ingest(&[document("a.md", "cats sleep long")]).await, first);
    let texts: Vec<Value> =
        world.query(&json!({"query": "water"})).await.iter().map(|hit| hit["text"].clone()).collect();
    assert_eq!(texts, ["cats sleep long"]);
}

#[tokio::test]
async fn another_root_another_path_and_another_collection_are_other_documents() {
    let world = Setup::of("fake").start().await;
    let same = document("a.md", "water runs down");
    let mut elsewhere = same.clone();
    elsewhere["repoUrl"] = json!("https://git.example/other");
    let mut ids = world.ingest(&[same.clone(), elsewhere, document("b.md", "water runs down")]).await;
    let filed = world.try_ingest(&json!({"documents": [same], "collection": "ours"})).await.json(200).await;
    ids.push(filed["ingestedDocumentIds"][0].as_str().expect("an id").to_owned());
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn a_document_that_cannot_be_taken_in_stops_no_other() {
    let world = Setup::of("fake").start().await;
    let documents = [document("bad.bin", "a\u{0}b\u{0}c"), document("good.md", "water runs down")];
    let reply = world.try_ingest(&json!({"documents": documents})).await.json(200).await;
    assert_eq!((&reply["successCount"], &reply["failureCount"]), (&json!(1), &json!(1)));
    let error = &reply["errors"][0];
    assert_eq!(error["documentIdentifier"], "https://git.example/wiki/bad.bin");
    assert_eq!(error["stage"], "parsing");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    assert_eq!(world.paths(&json!({"query": "water"})).await, ["good.md"]);
}

#[tokio::test]
async fn without_an_embedder_every_document_says_at_which_stage_it_failed() {
    let world = Setup::of("fake").without_embedder().start().await;
    let reply = world.try_ingest(&json!({"documents": [document("a.md", "water")]})).await.json(200).await;
    assert_eq!((&reply["successCount"], &reply["failureCount"]), (&json!(0), &json!(1)));
    assert_eq!(reply["errors"][0]["stage"], "embedding");
    let message = reply["errors"][0]["message"].as_str().expect("it says why");
    assert!(message.starts_with("embedding: "), "{message}");
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_named() {
    let world = Setup::of("fake").start().await;
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
        let refusal = world.try_ingest(&body).await.refusal(400, "invalid_request").await;
        assert!(refusal["message"].as_str().expect("a text").contains(words), "{refusal}");
    }
    world.call(Call::post(INGEST, "{\"documents\": [")).await.refusal(400, "invalid_request").await;
    assert_eq!(world.get(DOCUMENTS).await.json(200).await["totalCount"], 0);
}

#[tokio::test]
async fn documents_have_a_larger_limit_than_other_bodies_and_it_holds() {
    let setup = Setup::of("fake").settings(|settings| {
        settings.body_bytes = 1_000;
        settings.ingest_body_bytes = 10_000;
    });
    let world = setup.start().await;
    world.ingest(&[document("a.md", &"water ".repeat(500))]).await;
    let body = json!({"documents": [document("a.md", &"water ".repeat(5_000))]});
    let refusal = world.try_ingest(&body).await.refusal(413, "body_too_large").await;
    assert!(refusal["message"].as_str().expect("a text").contains("limits.ingest_body_bytes"), "{refusal}");
    world.try_query(&json!({"query": "water ".repeat(500)})).await.refusal(413, "body_too_large").await;
}
