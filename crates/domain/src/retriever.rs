//! The ports of retrieval: the index finds candidates, the retriever fuses and ranks them into passages.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    CatalogChanges, ChunkId, DocumentId, Failure, FilterMatches, Passage, Principal, SearchScope,
    StorageError,
};

/// The search index, derived from the catalog. It is rebuilt from the catalog when it is missing or has
/// another format.
#[async_trait]
pub trait Index: Send + Sync {
    /// The revision of the catalog up to which the index is complete.
    fn revision(&self) -> u64;

    /// Whether the index has no chunks.
    fn is_empty(&self) -> bool;

    /// Applies changes of the catalog atomically: a search sees all of them or none. Changes up to revision 0
    /// clear the index.
    async fn apply(&self, changes: CatalogChanges) -> Result<(), StorageError>;

    /// The best candidates by BM25 and by cosine, both from one snapshot of the index.
    async fn search(&self, search: IndexQuery) -> Result<Vec<Candidate>, Failure>;
}

/// A search in the index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexQuery {
    /// The tenant whose chunks are searched.
    pub who: Principal,
    /// The query text, for BM25.
    pub text: String,
    /// The query vector; without it the search is lexical only.
    pub vector: Option<Vec<f32>>,
    /// Restricts the search to the matches of the filters; `None` if there are no filters.
    pub within: Option<FilterMatches>,
    /// Maximum number of candidates by BM25, and again by cosine.
    pub limit: usize,
}

/// A chunk that was found by BM25, by cosine or by both.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The chunk.
    pub chunk: ChunkId,
    /// The document that contains it.
    pub document: DocumentId,
    /// Whether the chunk is code rather than prose.
    pub is_code: bool,
    /// Rank by BM25, from 0, and the BM25 score; `None` if BM25 did not find it.
    pub lexical: Option<(usize, f32)>,
    /// Rank by cosine, from 0; `None` if the vector search did not find it.
    pub dense: Option<usize>,
    /// Cosine of query and chunk; `None` if either has no vector.
    pub cosine: Option<f32>,
}

/// Finds passages for a question.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// Whether the knowledge base has nothing to search.
    fn is_empty(&self) -> bool;

    /// Finds passages, best first, and reports each stage to `stages` as it begins and ends.
    async fn retrieve(
        &self,
        who: &Principal,
        query: RetrievalQuery,
        stages: &(dyn Fn(Stage) + Send + Sync),
    ) -> Result<Retrieved, Failure>;
}

/// What to retrieve.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievalQuery {
    /// The query text.
    pub text: String,
    /// Where to search.
    pub scope: SearchScope,
    /// Minimum cosine of question and passage; passages below it are left out.
    pub threshold: Option<f32>,
    /// Maximum number of passages.
    pub limit: usize,
}

/// The result of retrieval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retrieved {
    /// The passages, best first.
    pub passages: Vec<Hit>,
    /// Number of distinct candidates, by BM25 and by cosine, before ranking.
    pub candidates: usize,
    /// Whether the relevance gate passed: some passage is likely to answer the question.
    pub is_relevant: bool,
}

/// A passage with the ranks and scores that led to its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The passage.
    pub passage: Passage,
    /// The candidate it was built from.
    pub candidate: Candidate,
    /// Rank after the fusion of BM25 and cosine, from 0, and the fused score.
    pub fused: (usize, f32),
    /// Rank after reranking, from 0, and the reranker's score; `None` if there was no reranking.
    pub reranked: Option<(usize, f32)>,
}

/// The begin or the end of a stage before generation.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// The stage began.
    Began(StageName),
    /// The stage ended.
    Ended {
        /// Which stage.
        name: StageName,
        /// Number of chunks it returned.
        count: usize,
        /// How long it ran.
        took: Duration,
    },
}

/// The stages before generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageName {
    /// A follow-up question is rewritten into one that stands alone.
    Rewriting,
    /// Candidates are searched in the index.
    Retrieval,
    /// Candidates are ranked.
    Reranking,
}
