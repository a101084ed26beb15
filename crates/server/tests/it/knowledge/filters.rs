//! Each filter changes what is found.

use serde_json::{Value, json};

use super::document;
use crate::harness::Setup;
use crate::world::World;

/// Four documents about water that differ in all that can be filtered.
async fn library() -> World {
    let world = Setup::of("fake").start().await;
    let mut guide = document("docs/guide.md", "# Guide\n\nwater runs down");
    guide["metadata"] = json!({"team": "core", "level": 1});
    let mut notes = document("docs/deep/notes.md", "# Notes\n\nwater runs down");
    notes["metadata"] = json!({"team": "web", "level": 2});
    let code = document("src/water.rs", "fn water() -> &'static str {\n    \"water runs down\"\n}\n");
    let mut other = document("docs/other.md", "# Guide\n\nwater runs down");
    other["repoUrl"] = json!("https://git.example/other");
    world.ingest(&[guide, notes, code]).await;
    let ours = json!({"documents": [other], "collection": "ours"});
    assert_eq!(world.try_ingest(&ours).await.json(200).await["failureCount"], 0);
    world
}

async fn check(world: &World, filters: &Value, expected: &[&str]) {
    let found = world.paths(&json!({"query": "water runs down", "filters": filters})).await;
    assert_eq!(found, expected, "{filters}");
}

#[tokio::test]
async fn each_filter_leaves_what_it_names() {
    let world = library().await;
    let all = ["docs/deep/notes.md", "docs/guide.md", "docs/other.md", "src/water.rs"];
    check(&world, &json!({}), &all).await;
    check(&world, &json!({"title": null}), &all).await;
    check(&world, &json!({"repoUrl": "https://git.example/other"}), &["docs/other.md"]).await;
    check(&world, &json!({"filePath": "src/water.rs"}), &["src/water.rs"]).await;
    check(&world, &json!({"filePath": "docs/*.md"}), &["docs/guide.md", "docs/other.md"]).await;
    check(&world, &json!({"filePath": "docs/**"}), &all[..3]).await;
    check(&world, &json!({"language": "rust"}), &["src/water.rs"]).await;
    check(&world, &json!({"collection": "ours"}), &["docs/other.md"]).await;
    check(&world, &json!({"title": "Notes"}), &["docs/deep/notes.md"]).await;
    check(&world, &json!({"metadata.team": "core"}), &["docs/guide.md"]).await;
    check(&world, &json!({"metadata.nobody": "core"}), &[]).await;
}

#[tokio::test]
async fn every_field_must_match_by_any_of_its_values() {
    let world = library().await;
    check(&world, &json!({"title": "Guide"}), &["docs/guide.md", "docs/other.md"]).await;
    check(&world, &json!({"title": "Guide", "collection": "default"}), &["docs/guide.md"]).await;
    check(&world, &json!({"title": "Guide", "collection": "nowhere"}), &[]).await;
    check(
        &world,
        &json!({"title": ["Guide", "Notes"], "collection": "default"}),
        &["docs/deep/notes.md", "docs/guide.md"],
    )
    .await;
    check(&world, &json!({"metadata.team": ["core", "web"]}), &["docs/deep/notes.md", "docs/guide.md"]).await;
}

#[tokio::test]
async fn a_filter_does_not_make_better_passages_of_others_matter() {
    let world = Setup::of("fake").start().await;
    let mut documents: Vec<_> =
        (0..150).map(|number| document(&format!("near/{number}.md"), "water runs down")).collect();
    documents.push(document("far.md", "once water was seen among very many stones"));
    world.ingest(&documents).await;
    check(&world, &json!({"filePath": "far.md"}), &["far.md"]).await;
}
