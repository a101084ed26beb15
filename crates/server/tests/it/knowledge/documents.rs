//! Documents and collections, listed, looked at and removed.

use serde_json::{Value, json};

use super::{DOCUMENTS, document};
use crate::client::Call;
use crate::harness::Setup;

const NOBODY: &str = "0190a5e2-0000-7000-8000-000000000000";

fn path(id: &str) -> String {
    format!("{DOCUMENTS}/{id}")
}

#[tokio::test]
async fn a_document_is_told_with_everything_that_is_known_of_it_but_vectors() {
    let world = Setup::of("fake").start().await;
    let mut given = document("docs/pumps.md", "# Pumps\n\nPumps lift water.\n");
    given["metadata"] = json!({"team": "core", "level": 3, "open": true});
    let id = &world.ingest(&[given]).await[0];
    let told = world.get(&path(id)).await.json(200).await;
    let expected = json!({
        "id": id,
        "source": "api",
        "repoUrl": "https://git.example/wiki",
        "filePath": "docs/pumps.md",
        "title": "Pumps",
        "text": "# Pumps\n\nPumps lift water.\n",
        "metadata": {"team": "core", "level": 3, "open": true},
        "createdAt": told["createdAt"],
        "updatedAt": told["updatedAt"],
        "chunkCount": 1,
    });
    assert_eq!(told, expected);
    for time in ["createdAt", "updatedAt"] {
        let time = told[time].as_str().expect("a time is text");
        assert!(time.len() == "2026-01-01T00:00:00.000Z".len() && time.ends_with('Z'), "{time}");
    }
}

#[tokio::test]
async fn a_given_title_is_kept() {
    let world = Setup::of("fake").start().await;
    let mut given = document("a.md", "# Pumps\n");
    given["title"] = json!("All about pumps");
    let id = &world.ingest(&[given]).await[0];
    assert_eq!(world.get(&path(id)).await.json(200).await["title"], "All about pumps");
}

#[tokio::test]
async fn documents_are_told_page_by_page_without_their_texts() {
    let world = Setup::of("fake").start().await;
    let documents: Vec<_> = (0..25).map(|number| document(&format!("{number}.md"), "water")).collect();
    let mut ids = world.ingest(&documents).await;
    let mut told = Vec::new();
    for page in 1..=4 {
        let reply = world.get(&format!("{DOCUMENTS}?page={page}&pageSize=10")).await.json(200).await;
        assert_eq!((&reply["page"], &reply["pageSize"]), (&json!(page), &json!(10)));
        assert_eq!(reply["totalCount"], 25);
        let documents = reply["documents"].as_array().expect("a list");
        assert_eq!(documents.len(), [10, 10, 5, 0][page - 1]);
        assert!(documents.iter().all(|document| document.get("text").is_none()), "{reply}");
        told.extend(documents.iter().map(|document| document["id"].as_str().expect("an id").to_owned()));
    }
    ids.sort();
    told.sort();
    assert_eq!(told, ids);
    let first = world.get(DOCUMENTS).await.json(200).await;
    assert_eq!((&first["page"], &first["pageSize"]), (&json!(1), &json!(20)));
}

#[tokio::test]
async fn documents_of_one_root_are_told_alone() {
    let world = Setup::of("fake").start().await;
    let mut other = document("b.md", "water");
    other["repoUrl"] = json!("https://git.example/a b&c");
    let ids = world.ingest(&[document("a.md", "water"), other]).await;
    let reply =
        world.get(&format!("{DOCUMENTS}?repoUrl=https%3A%2F%2Fgit.example%2Fa+b%26c")).await.json(200).await;
    assert_eq!((&reply["totalCount"], &reply["documents"][0]["id"]), (&json!(1), &json!(ids[1])));
    let reply = world.get(&format!("{DOCUMENTS}?repoUrl=nowhere")).await.json(200).await;
    assert_eq!((&reply["totalCount"], &reply["documents"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn a_page_that_cannot_be_is_refused() {
    let world = Setup::of("fake").start().await;
    for query in ["page=0", "page=-1", "page=x", "pageSize=0", "pageSize=101", "page=99999999999999999999"] {
        let refusal = world.get(&format!("{DOCUMENTS}?{query}")).await.refusal(400, "invalid_request").await;
        let name = query.split('=').next().expect("a name");
        assert!(refusal["message"].as_str().expect("a text").starts_with(name), "{refusal}");
    }
}

#[tokio::test]
async fn what_is_no_document_is_not_found() {
    let world = Setup::of("fake").start().await;
    for id in [NOBODY, "no-uuid", "%FF"] {
        world.get(&path(id)).await.refusal(404, "document_not_found").await;
        world.call(Call::delete(path(id))).await.refusal(404, "document_not_found").await;
    }
}

#[tokio::test]
async fn a_removed_document_is_gone_and_is_found_no_more() {
    let world = Setup::of("fake").start().await;
    let ids = world.ingest(&[document("a.md", "water runs"), document("b.md", "water stands")]).await;
    world.call(Call::delete(path(&ids[0]))).await.no_content();
    world.get(&path(&ids[0])).await.refusal(404, "document_not_found").await;
    world.call(Call::delete(path(&ids[0]))).await.refusal(404, "document_not_found").await;
    assert_eq!(world.paths(&json!({"query": "water"})).await, ["b.md"]);
    assert_eq!(world.ingest(&[document("a.md", "water runs")]).await, ids[..1], "it is the same one again");
    assert_eq!(world.paths(&json!({"query": "water"})).await, ["a.md", "b.md"]);
}

#[tokio::test]
async fn collections_are_told_with_how_many_documents_they_have() {
    let world = Setup::of("fake").start().await;
    let collections = async || world.get(&path("collections")).await.json(200).await;
    assert_eq!(collections().await, json!({"collections": [], "total_count": 0}));
    world.ingest(&[document("a.md", "water"), document("b.md", "water")]).await;
    let ours = json!({"documents": [document("a.md", "water")], "collection": "ours"});
    world.try_ingest(&ours).await.json(200).await;
    let named =
        |name: &str, count: u64| -> Value { json!({"id": name, "name": name, "document_count": count}) };
    let expected = json!({"collections": [named("default", 2), named("ours", 1)], "total_count": 2});
    assert_eq!(collections().await, expected);
}

#[tokio::test]
async fn a_catalog_that_fails_is_told_and_may_be_asked_again() {
    let world = Setup::of("fake").start().await;
    let id = &world.ingest(&[document("a.md", "water")]).await[0];
    world.catalog.fail(true);
    for call in
        [Call::get(DOCUMENTS), Call::get(path(id)), Call::get(path("collections")), Call::delete(path(id))]
    {
        world.call(call).await.refusal(503, "storage_unavailable").await;
    }
    world.catalog.fail(false);
    world.call(Call::delete(path(id))).await.no_content();
}
