//! Chunks for tests, and how they are searched for.

use domain::{Candidate, CatalogChanges, ChunkId, DocumentId, Index, IndexQuery, IndexedChunk, Principal};
use retrieval::EmbeddedIndex;
use testing::fake_vector;
use uuid::Uuid;

pub(crate) const MODEL: &str = "model";

/// Numbers in a vector.
const DIMENSION: usize = 16;

pub(crate) fn document(number: u32) -> DocumentId {
    DocumentId(Uuid::from_u128(0xd0c << 96 | u128::from(number)))
}

pub(crate) fn id(number: u32) -> ChunkId {
    ChunkId(Uuid::from_u128(0xc << 96 | u128::from(number)))
}

pub(crate) fn tenant(name: &str) -> Principal {
    Principal { tenant: name.to_owned() }
}

/// A chunk of the local tenant in a document of its own, with the vector of its words.
pub(crate) fn chunk(number: u32, text: &str) -> IndexedChunk {
    IndexedChunk {
        who: Principal::local(),
        chunk: id(number),
        document: document(number),
        title: String::new(),
        file_path: String::new(),
        context: String::new(),
        text: text.to_owned(),
        is_code: false,
        vector: Some(vector(text)),
    }
}

/// Of length one, as an embedder's.
pub(crate) fn vector(text: &str) -> Vec<f32> {
    let mut vector = fake_vector(text, DIMENSION);
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|number| *number /= length);
    vector
}

/// Takes in the next revision.
pub(crate) async fn apply(
    index: &EmbeddedIndex,
    removed: Vec<(Principal, ChunkId)>,
    added: Vec<IndexedChunk>,
) {
    let revision = index.revision() + 1;
    index
        .apply(CatalogChanges { revision, more: false, removed, added })
        .await
        .expect("sound changes are taken in");
}

/// A search of the local tenant by words and by meaning.
pub(crate) fn question(text: &str) -> IndexQuery {
    IndexQuery {
        who: Principal::local(),
        text: text.to_owned(),
        vector: Some(vector(text)),
        within: None,
        limit: 30,
    }
}

/// What is found, by words first.
pub(crate) async fn found(index: &EmbeddedIndex, search: IndexQuery) -> Vec<Candidate> {
    index.search(search).await.expect("a sound index is searched")
}

/// What words find.
pub(crate) async fn found_by_words(index: &EmbeddedIndex, text: &str) -> Vec<ChunkId> {
    let candidates = found(index, IndexQuery { vector: None, ..question(text) }).await;
    candidates.into_iter().map(|candidate| candidate.chunk).collect()
}
