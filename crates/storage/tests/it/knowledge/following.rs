//! Following the catalog: whoever applies every change has what it has, and sees documents whole meanwhile.
//! Checked with random stories against a model of a few maps.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Catalog, CatalogChanges, ChunkId, DocumentId, IndexedChunk, NewDocument, Principal, PutOutcome,
};
use proptest::prelude::*;
use storage::Knowledge;

use super::library::{MODEL, digested, document, embed, place, put, revision, vector_of};
use crate::world::{stranger, who};

/// What can happen.
#[derive(Clone, Debug)]
enum Act {
    Put(bool, Vec<Told>),
    Remove(bool, Vec<u8>),
    Embed(usize),
    Poll(usize, usize),
}

/// A document: its path, its title and its paragraphs.
type Told = (u8, u8, Vec<u8>);

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let told = (0..4u8, 0..2u8, prop::collection::vec(0..5u8, 0..5));
    let act = prop_oneof![
        4 => (any::<bool>(), prop::collection::vec(told, 1..4)).prop_map(|(stranger, told)| Act::Put(stranger, told)),
        1 => (any::<bool>(), prop::collection::vec(0..4u8, 1..3)).prop_map(|(stranger, paths)| Act::Remove(stranger, paths)),
        3 => (1..12usize).prop_map(Act::Embed),
        4 => (0..2usize, 1..10usize).prop_map(|(follower, limit)| Act::Poll(follower, limit)),
    ];
    prop::collection::vec(act, 1..40)
}

/// A document of a tenant.
type Name = (Principal, DocumentId);

/// The catalog as it should be.
#[derive(Default)]
struct Model {
    documents: BTreeMap<Name, NewDocument>,
    vectors: BTreeSet<(Principal, ChunkId)>,
    /// What each document has ever consisted of.
    versions: BTreeMap<Name, BTreeSet<BTreeSet<ChunkId>>>,
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

    /// All chunks, as whoever follows must have them.
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

/// Somebody who follows.
#[derive(Default)]
struct Follower {
    revision: u64,
    chunks: BTreeMap<(Principal, ChunkId), IndexedChunk>,
}

impl Follower {
    /// Takes in one answer, and tells whether there is more.
    async fn poll(&mut self, knowledge: &Knowledge, limit: usize) -> bool {
        let changes = knowledge.changes_since(self.revision, MODEL, limit).await.unwrap();
        let CatalogChanges { revision, more, removed, added } = changes;
        assert!(revision >= self.revision && (revision > self.revision || !more), "it gets on");
        let told: BTreeSet<_> = added.iter().map(|chunk| (chunk.who.clone(), chunk.chunk)).collect();
        assert_eq!(told.len(), added.len(), "each chunk is told once");
        assert!(removed.iter().all(|name| !told.contains(name)), "and either way");
        removed.iter().for_each(|name| drop(self.chunks.remove(name)));
        self.chunks.extend(added.into_iter().map(|chunk| ((chunk.who.clone(), chunk.chunk), chunk)));
        self.revision = revision;
        more
    }

    fn check_that_documents_are_whole(&self, model: &Model) {
        let mut seen: BTreeMap<Name, (BTreeSet<ChunkId>, BTreeSet<&str>)> = BTreeMap::new();
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

fn new_document((path, title, paragraphs): &Told) -> NewDocument {
    let paragraphs: Vec<_> = paragraphs.iter().map(|number| format!("paragraph {number}")).collect();
    let paragraphs: Vec<_> = paragraphs.iter().map(String::as_str).collect();
    let mut new = document(&path.to_string(), &paragraphs);
    new.document.title = format!("title {title}");
    digested(new)
}

async fn check(story: Vec<Act>) {
    let (knowledge, mut model) = (Knowledge::in_memory(), Model::default());
    let mut followers = [Follower::default(), Follower::default()];
    for act in story {
        match act {
            Act::Put(stranger, told) => {
                let new: Vec<_> = told.iter().map(new_document).collect();
                let expected: Vec<_> = new.iter().map(|new| model.put(&tenant(stranger), new)).collect();
                assert_eq!(knowledge.put(&tenant(stranger), new).await.unwrap(), expected);
            }
            Act::Remove(stranger, paths) => {
                let ids: Vec<_> = paths.iter().map(|path| place(&path.to_string()).document()).collect();
                let expected = ids.iter().map(|id| model.remove(&tenant(stranger), *id)).sum();
                assert_eq!(knowledge.remove(&tenant(stranger), &ids).await, Ok(expected));
            }
            Act::Embed(limit) => {
                let embedded = embed(&knowledge, limit).await;
                let missing = model.indexed().values().filter(|chunk| chunk.vector.is_none()).count();
                assert_eq!(embedded.len(), missing.min(limit));
                for chunk in embedded {
                    assert!(model.vectors.insert((chunk.who, chunk.chunk)), "it lacked a vector");
                }
            }
            Act::Poll(follower, limit) => {
                followers[follower].poll(&knowledge, limit).await;
                followers[follower].check_that_documents_are_whole(&model);
            }
        }
    }
    let [first, second] = followers;
    for (mut follower, limit) in [(first, 3), (second, usize::MAX), (Follower::default(), 1)] {
        while follower.poll(&knowledge, limit).await {
            follower.check_that_documents_are_whole(&model);
        }
        assert_eq!(follower.chunks, model.indexed());
    }
}

proptest! {
    #[test]
    fn whoever_applies_every_change_has_what_the_catalog_has(story in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check(story));
    }
}

#[tokio::test]
async fn whole_revisions_are_told_until_there_are_enough_chunks() {
    let knowledge = Knowledge::in_memory();
    for (path, paragraphs) in [("a", &["1", "2"][..]), ("b", &["3", "4", "5"]), ("c", &["6"])] {
        put(&knowledge, &document(path, paragraphs)).await;
    }
    let mut told = Vec::new();
    let mut after = 0;
    loop {
        let changes = knowledge.changes_since(after, MODEL, 3).await.unwrap();
        after = changes.revision;
        told.push(changes.added.into_iter().map(|chunk| chunk.text).collect::<String>());
        if !changes.more {
            break;
        }
    }
    assert_eq!(told, ["12345", "6"]);
}

#[tokio::test]
async fn code_is_told_from_prose() {
    let knowledge = Knowledge::in_memory();
    let mut code = document("code", &["fn main() {}"]);
    code.document.language = Some("rust".into());
    code.chunks[0].kind = None;
    let prose = document("prose", &["Some words."]);
    knowledge.put(&who(), vec![digested(code), prose]).await.unwrap();
    let changes = knowledge.changes_since(0, MODEL, 9).await.unwrap();
    let told: Vec<_> = changes.added.iter().map(|chunk| (chunk.file_path.as_str(), chunk.is_code)).collect();
    assert_eq!(told, [("code", true), ("prose", false)]);
}

#[tokio::test]
async fn whoever_followed_another_catalog_begins_anew() {
    let (knowledge, other) = (Knowledge::in_memory(), Knowledge::in_memory());
    put(&knowledge, &document("a", &["text"])).await;
    let empty = knowledge.changes_since(revision(&knowledge).await, MODEL, 9).await.unwrap();
    assert_eq!((empty.more, empty.added.len()), (false, 0));
    let latest = revision(&knowledge).await.max(revision(&other).await);
    for unknown in [1, latest + 1_000_000] {
        let changes = knowledge.changes_since(unknown, MODEL, 9).await.unwrap();
        assert_eq!(changes, CatalogChanges { more: true, ..CatalogChanges::default() });
    }
}
