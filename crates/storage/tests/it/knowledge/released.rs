//! A catalog of every format that was ever released is kept in `fixtures/data-folders`, as its release wrote it,
//! and opens. When the stored form changes, `FORMAT` goes up and the next run writes a new one there.

use std::fs;
use std::path::{Path, PathBuf};

use domain::{Catalog, FilterField, NewDocument};

use super::library::{MODEL, check_integrity, digested, document, embed, open, put, vector_of};
use crate::world::who;

/// The format that this release writes.
const FORMAT: u32 = 2;

fn committed(format: u32) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/data-folders");
    PathBuf::from(fixtures).join(format!("knowledge-{format}")).join("knowledge.db")
}

/// What is in it: one document that was replaced, one without vectors; a third was removed.
fn story() -> [NewDocument; 2] {
    let mut code = document("src/ß.rs", &["fn one() {}", "fn two() {}"]);
    code.document.language = Some("rust".into());
    code.document.tags = vec!["tag".into()];
    code.document.metadata = [("team".into(), "\"sky\"".into())].into();
    code.chunks.iter_mut().for_each(|chunk| chunk.kind = None);
    [digested(code), document("docs/later.md", &["日本 🙂"])]
}

async fn write(folder: &Path) {
    let knowledge = open(folder);
    let [code, later] = story();
    put(&knowledge, &document("src/ß.rs", &["fn zero() {}", "fn one() {}"])).await;
    put(&knowledge, &code).await;
    let gone = document("gone", &["text"]);
    put(&knowledge, &gone).await;
    knowledge.remove(&who(), &[gone.document.id]).await.unwrap();
    embed(&knowledge, 9).await;
    put(&knowledge, &later).await;
}

/// Opens a copy of a catalog, and checks that all of it is there.
async fn check(database: &Path) {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(database, folder.path().join("knowledge.db")).unwrap();
    let knowledge = open(folder.path());
    let [code, later] = story();
    for new in [&code, &later] {
        let filed = knowledge.document(&who(), new.document.id).await.unwrap().unwrap();
        assert_eq!((filed.document, filed.created_at), (new.document.clone(), new.at));
    }
    let changes = knowledge.changes_since(0, MODEL, 9).await.unwrap();
    let told: Vec<_> =
        changes.added.into_iter().map(|chunk| (chunk.text, chunk.vector, chunk.is_code)).collect();
    let vector = |number: usize| Some(vector_of(code.chunks[number].id));
    let expected = [
        ("fn one() {}".to_owned(), vector(0), true),
        ("fn two() {}".to_owned(), vector(1), true),
        ("日本 🙂".to_owned(), None, false),
    ];
    assert_eq!(told, expected);
    let filters = [(FilterField::Metadata("team".into()), ["sky".into()].into())].into();
    assert_eq!(knowledge.matching(&who(), &filters).await.unwrap().documents, [code.document.id]);
    let since_the_first = changes.revision - 5;
    let removed = knowledge.changes_since(since_the_first, MODEL, 9).await.unwrap().removed;
    let gone = [document("src/ß.rs", &["fn zero() {}"]), document("gone", &["text"])];
    assert_eq!(removed, gone.map(|gone| (who(), gone.chunks[0].id)));
    assert_eq!(embed(&knowledge, 9).await.len(), 1);
    drop(knowledge);
    check_integrity(folder.path());
}

#[tokio::test]
async fn a_catalog_of_every_format_opens_and_has_everything() {
    for format in 1..=FORMAT {
        let database = committed(format);
        if !database.exists() && format == FORMAT {
            write(database.parent().unwrap()).await;
            panic!(
                "{} was missing, and has been written: it belongs into the repository",
                database.display()
            );
        }
        check(&database).await;
    }
}

#[tokio::test]
async fn a_catalog_of_today_opens_and_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path()).await;
    check(&folder.path().join("knowledge.db")).await;
}
