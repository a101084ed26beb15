//! A catalog of every released format is in `fixtures/data-folders`, as its release wrote it, and opens. When the stored
//! form changes, increment `FORMAT`: the next run writes a new one there.

use std::fs;
use std::path::{Path, PathBuf};

use domain::{Catalog, FilterField, NewDocument};

use super::fixtures::{MODEL, check_integrity, digested, document, embed, open, put, vector_of};
use crate::harness::who;

/// The format that this release writes.
const FORMAT: u32 = 2;

fn committed(format: u32) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/data-folders");
    PathBuf::from(fixtures).join(format!("knowledge-{format}")).join("knowledge.db")
}

/// The documents of the fixture: one that was replaced, and one without vectors. A third was removed.
fn fixture_documents() -> [NewDocument; 2] {
    let mut code = document("src/ß.rs", &["fn one() {}", "fn two() {}"]);
    code.document.language = Some("rust".into());
    code.document.tags = vec!["tag".into()];
    code.document.metadata = [("team".into(), "\"sky\"".into())].into();
    code.chunks.iter_mut().for_each(|chunk| chunk.kind = None);
    [digested(code), document("docs/later.md", &["日本 🙂"])]
}

async fn write(folder: &Path) {
    let catalog = open(folder);
    let [code, later] = fixture_documents();
    put(&catalog, &document("src/ß.rs", &["fn zero() {}", "fn one() {}"])).await;
    put(&catalog, &code).await;
    let gone = document("gone", &["text"]);
    put(&catalog, &gone).await;
    catalog.remove(&who(), &[gone.document.id]).await.unwrap();
    embed(&catalog, 9).await;
    put(&catalog, &later).await;
}

/// Opens a copy of a catalog, and checks that all of it is there.
async fn check(database: &Path) {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(database, folder.path().join("knowledge.db")).unwrap();
    let catalog = open(folder.path());
    let [code, later] = fixture_documents();
    for new in [&code, &later] {
        let stored = catalog.document(&who(), new.document.id).await.unwrap().unwrap();
        assert_eq!((stored.document, stored.created_at), (new.document.clone(), new.at));
    }
    let changes = catalog.changes_since(0, MODEL, 9).await.unwrap();
    let added: Vec<_> =
        changes.added.into_iter().map(|chunk| (chunk.text, chunk.vector, chunk.is_code)).collect();
    let vector = |number: usize| Some(vector_of(code.chunks[number].id));
    let expected = [
        ("fn one() {}".to_owned(), vector(0), true),
        ("fn two() {}".to_owned(), vector(1), true),
        ("日本 🙂".to_owned(), None, false),
    ];
    assert_eq!(added, expected);
    let filters = [(FilterField::Metadata("team".into()), ["sky".into()].into())].into();
    assert_eq!(catalog.matching(&who(), &filters).await.unwrap().documents, [code.document.id]);
    let since_the_first = changes.revision - 5;
    let removed = catalog.changes_since(since_the_first, MODEL, 9).await.unwrap().removed;
    let gone = [document("src/ß.rs", &["fn zero() {}"]), document("gone", &["text"])];
    assert_eq!(removed, gone.map(|gone| (who(), gone.chunks[0].id)));
    assert_eq!(embed(&catalog, 9).await.len(), 1);
    drop(catalog);
    check_integrity(folder.path());
}

#[tokio::test]
async fn a_catalog_of_every_released_format_opens_with_all_its_content() {
    for format in 1..=FORMAT {
        let database = committed(format);
        if !database.exists() && format == FORMAT {
            write(database.parent().unwrap()).await;
            panic!("{} was missing and has been written: add it to the repository", database.display());
        }
        check(&database).await;
    }
}

#[tokio::test]
async fn a_catalog_of_this_release_opens_with_all_its_content() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path()).await;
    check(&folder.path().join("knowledge.db")).await;
}
