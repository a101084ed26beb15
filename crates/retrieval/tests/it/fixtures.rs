//! Chunks, queries and short forms of index calls.

use domain::{Candidate, CatalogChanges, ChunkId, DocumentId, Index, IndexQuery, IndexedChunk, Principal};
use retrieval::EmbeddedIndex;
use testing::fake_vector;
use uuid::Uuid;

pub(crate) const MODEL: &str = "model";

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

/// A chunk of the local tenant in a document of its own, with the vector of its text.
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

/// A vector of length one, like an embedder's.
pub(crate) fn vector(text: &str) -> Vec<f32> {
    let mut vector = fake_vector(text, DIMENSION);
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|number| *number /= length);
    vector
}

/// Applies the next revision.
pub(crate) async fn apply(
    index: &EmbeddedIndex,
    removed: Vec<(Principal, ChunkId)>,
    added: Vec<IndexedChunk>,
) {
    let revision = index.revision() + 1;
    index
        .apply(CatalogChanges { revision, more: false, removed, added })
        .await
        .expect("the index applies valid changes");
}

/// A lexical and dense query of the local tenant.
pub(crate) fn query(text: &str) -> IndexQuery {
    IndexQuery {
        who: Principal::local(),
        text: text.to_owned(),
        vector: Some(vector(text)),
        within: None,
        limit: 30,
    }
}

pub(crate) async fn search(index: &EmbeddedIndex, query: IndexQuery) -> Vec<Candidate> {
    index.search(query).await.expect("the index answers a valid query")
}

/// The chunks of a lexical search.
pub(crate) async fn search_lexical(index: &EmbeddedIndex, text: &str) -> Vec<ChunkId> {
    let candidates = search(index, IndexQuery { vector: None, ..query(text) }).await;
    candidates.into_iter().map(|candidate| candidate.chunk).collect()
}
