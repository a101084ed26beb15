//! The change feed: a follower that applies every change has the catalog's content, and never sees part of a document.
//! Checked with random operations against a model of a few maps.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Catalog, CatalogChanges, ChunkId, DocumentId, IndexedChunk, NewDocument, Principal, PutOutcome,
};
use proptest::prelude::*;
use storage::SqliteCatalog;

use super::fixtures::{MODEL, digested, document, embed, location_of, put, revision, vector_of};
use crate::harness::{stranger, who};

/// A random operation. The flag selects the tenant.
#[derive(Clone, Debug)]
enum Operation {
    Put(bool, Vec<DocumentSketch>),
    Remove(bool, Vec<u8>),
    Embed(usize),
    Poll(usize, usize),
}

/// The path, title and paragraphs of a document, as numbers.
type DocumentSketch = (u8, u8, Vec<u8>);

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let sketch = (0..4u8, 0..2u8, prop::collection::vec(0..5u8, 0..5));
    let operation = prop_oneof![
        4 => (any::<bool>(), prop::collection::vec(sketch, 1..4)).prop_map(|(stranger, sketches)| Operation::Put(stranger, sketches)),
        1 => (any::<bool>(), prop::collection::vec(0..4u8, 1..3)).prop_map(|(stranger, paths)| Operation::Remove(stranger, paths)),
        3 => (1..12usize).prop_map(Operation::Embed),
        4 => (0..2usize, 1..10usize).prop_map(|(follower, limit)| Operation::Poll(follower, limit)),
    ];
    prop::collection::vec(operation, 1..40)
}

/// A document of a tenant.
type DocumentKey = (Principal, DocumentId);

/// The expected content of the catalog.
#[derive(Default)]
struct Model {
    documents: BTreeMap<DocumentKey, NewDocument>,
    vectors: BTreeSet<(Principal, ChunkId)>,
    /// The sets of chunks that each document has ever had.
    versions: BTreeMap<DocumentKey, BTreeSet<BTreeSet<ChunkId>>>,
}

impl Model {
    fn put(&mut self, who: &Principal, new: &NewDocument) -> PutOutcome {
        let name = (who.clone(), new.document.id);
        let before = self.documents.insert(name.clone(), new.clone());
        let ids: BTreeSet<_> = new.chunks.iter().map(|chunk| chunk.id).collect();
        for chunk in before.iter().flat_map(|before| &before.chunks).filter(|chunk| !ids.contains(&chunk.id))
        {
            self.vectors.remove(&(who.clone(), chunk.id));
        }
        self.versions.entry(name).or_default().insert(ids);
        match before {
            None => PutOutcome::Added,
            Some(before) if before.digest == new.digest => PutOutcome::Unchanged,
            Some(_) => PutOutcome::Replaced,
        }
    }

    fn remove(&mut self, who: &Principal, id: DocumentId) -> u64 {
        let Some(gone) = self.documents.remove(&(who.clone(), id)) else { return 0 };
        for chunk in gone.chunks {
            self.vectors.remove(&(who.clone(), chunk.id));
        }
        1
    }

    /// The chunks that a follower must have.
    fn indexed(&self) -> BTreeMap<(Principal, ChunkId), IndexedChunk> {
        let chunks = self.documents.iter().flat_map(|((who, _), new)| {
            new.chunks.iter().map(move |chunk| ((who.clone(), chunk.id), new, chunk))
        });
        chunks
            .map(|(name, new, chunk)| {
                let indexed = IndexedChunk {
                    who: name.0.clone(),
                    chunk: chunk.id,
                    document: new.document.id,
                    title: new.document.title.clone(),
                    file_path: new.document.place.file_path.clone(),
                    context: chunk.context.clone(),
                    text: new.document.text[chunk.bytes.clone()].to_owned(),
                    is_code: false,
                    vector: self.vectors.contains(&name).then(|| vector_of(chunk.id)),
                };
                (name, indexed)
            })
            .collect()
    }
}

/// A follower of the change feed.
#[derive(Default)]
struct Follower {
    revision: u64,
    chunks: BTreeMap<(Principal, ChunkId), IndexedChunk>,
}

impl Follower {
    /// Applies one answer. Returns whether there is more.
    async fn poll(&mut self, catalog: &SqliteCatalog, limit: usize) -> bool {
        let changes = catalog.changes_since(self.revision, MODEL, limit).await.unwrap();
        let CatalogChanges { revision, more, removed, added } = changes;
        assert!(revision >= self.revision && (revision > self.revision || !more), "the revision advances");
        let names: BTreeSet<_> = added.iter().map(|chunk| (chunk.who.clone(), chunk.chunk)).collect();
        assert_eq!(names.len(), added.len(), "each chunk is added once");
        assert!(removed.iter().all(|name| !names.contains(name)), "and not removed as well");
        removed.iter().for_each(|name| drop(self.chunks.remove(name)));
        self.chunks.extend(added.into_iter().map(|chunk| ((chunk.who.clone(), chunk.chunk), chunk)));
        self.revision = revision;
        more
    }

    fn check_that_documents_are_whole(&self, model: &Model) {
        let mut seen: BTreeMap<DocumentKey, (BTreeSet<ChunkId>, BTreeSet<&str>)> = BTreeMap::new();
        for chunk in self.chunks.values() {
            let (ids, titles) = seen.entry((chunk.who.clone(), chunk.document)).or_default();
            ids.insert(chunk.chunk);
            titles.insert(&chunk.title);
        }
        for (name, (ids, titles)) in seen {
            assert!(model.versions[&name].contains(&ids), "{name:?} was never {ids:?}");
            assert_eq!(titles.len(), 1);
        }
    }
}

fn tenant(is_stranger: bool) -> Principal {
    if is_stranger { stranger() } else { who() }
}

fn new_document((path, title, paragraphs): &DocumentSketch) -> NewDocument {
    let paragraphs: Vec<_> = paragraphs.iter().map(|number| format!("paragraph {number}")).collect();
    let paragraphs: Vec<_> = paragraphs.iter().map(String::as_str).collect();
    let mut new = document(&path.to_string(), &paragraphs);
    new.document.title = format!("title {title}");
    digested(new)
}

async fn check(operations: Vec<Operation>) {
    let (catalog, mut model) = (SqliteCatalog::in_memory(), Model::default());
    let mut followers = [Follower::default(), Follower::default()];
    for operation in operations {
        match operation {
            Operation::Put(stranger, sketches) => {
                let new: Vec<_> = sketches.iter().map(new_document).collect();
                let expected: Vec<_> = new.iter().map(|new| model.put(&tenant(stranger), new)).collect();
                assert_eq!(catalog.put(&tenant(stranger), new).await.unwrap(), expected);
            }
            Operation::Remove(stranger, paths) => {
                let ids: Vec<_> =
                    paths.iter().map(|path| location_of(&path.to_string()).document()).collect();
                let expected = ids.iter().map(|id| model.remove(&tenant(stranger), *id)).sum();
                assert_eq!(catalog.remove(&tenant(stranger), &ids).await, Ok(expected));
            }
            Operation::Embed(limit) => {
                let embedded = embed(&catalog, limit).await;
                let missing = model.indexed().values().filter(|chunk| chunk.vector.is_none()).count();
                assert_eq!(embedded.len(), missing.min(limit));
                for chunk in embedded {
                    assert!(model.vectors.insert((chunk.who, chunk.chunk)), "it had no vector");
                }
            }
            Operation::Poll(follower, limit) => {
                followers[follower].poll(&catalog, limit).await;
                followers[follower].check_that_documents_are_whole(&model);
            }
        }
    }
    let [first, second] = followers;
    for (mut follower, limit) in [(first, 3), (second, usize::MAX), (Follower::default(), 1)] {
        while follower.poll(&catalog, limit).await {
            follower.check_that_documents_are_whole(&model);
        }
        assert_eq!(follower.chunks, model.indexed());
    }
}

proptest! {
    #[test]
    fn a_follower_that_applies_every_change_has_the_catalogs_content(operations in operations()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check(operations));
    }
}

#[tokio::test]
async fn an_answer_has_whole_revisions_until_the_limit() {
    let catalog = SqliteCatalog::in_memory();
    for (path, paragraphs) in [("a", &["1", "2"][..]), ("b", &["3", "4", "5"]), ("c", &["6"])] {
        put(&catalog, &document(path, paragraphs)).await;
    }
    let mut answers = Vec::new();
    let mut after = 0;
    loop {
        let changes = catalog.changes_since(after, MODEL, 3).await.unwrap();
        after = changes.revision;
        answers.push(changes.added.into_iter().map(|chunk| chunk.text).collect::<String>());
        if !changes.more {
            break;
        }
    }
    assert_eq!(answers, ["12345", "6"]);
}

#[tokio::test]
async fn code_is_distinguished_from_prose() {
    let catalog = SqliteCatalog::in_memory();
    let mut code = document("code", &["fn main() {}"]);
    code.document.language = Some("rust".into());
    code.chunks[0].kind = None;
    let prose = document("prose", &["Some words."]);
    catalog.put(&who(), vec![digested(code), prose]).await.unwrap();
    let changes = catalog.changes_since(0, MODEL, 9).await.unwrap();
    let added: Vec<_> = changes.added.iter().map(|chunk| (chunk.file_path.as_str(), chunk.is_code)).collect();
    assert_eq!(added, [("code", true), ("prose", false)]);
}

#[tokio::test]
async fn a_follower_of_another_catalog_starts_over() {
    let (catalog, other) = (SqliteCatalog::in_memory(), SqliteCatalog::in_memory());
    put(&catalog, &document("a", &["text"])).await;
    let empty = catalog.changes_since(revision(&catalog).await, MODEL, 9).await.unwrap();
    assert_eq!((empty.more, empty.added.len()), (false, 0));
    let latest = revision(&catalog).await.max(revision(&other).await);
    for unknown in [1, latest + 1_000_000] {
        let changes = catalog.changes_since(unknown, MODEL, 9).await.unwrap();
        assert_eq!(changes, CatalogChanges { more: true, ..CatalogChanges::default() });
    }
}
