//! Finding passages: the index gives candidates, the retriever puts them in order.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    CatalogChanges, ChunkId, DocumentId, Failure, FilterMatches, Passage, Principal, SearchScope,
    StorageError,
};

/// What is searched. Derived from the catalog, and made anew from it when it is missing or of another kind.
#[async_trait]
pub trait Index: Send + Sync {
    /// Everything up to this revision of the catalog is in it.
    fn revision(&self) -> u64;

    /// Whether there is nothing in it that could be found.
    fn is_empty(&self) -> bool;

    /// Takes in what happened since. A search sees either all of it or nothing. CatalogChanges up to revision 0 empty it.
    async fn apply(&self, changes: CatalogChanges) -> Result<(), StorageError>;

    /// The best candidates by words and by meaning, all on one state of the index.
    async fn search(&self, search: IndexQuery) -> Result<Vec<Candidate>, Failure>;
}

/// What to look for in an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexQuery {
    /// Whose chunks.
    pub who: Principal,
    /// The words.
    pub text: String,
    /// Their vector, if there is one.
    pub vector: Option<Vec<f32>>,
    /// Only what passed filters, if there were any.
    pub within: Option<FilterMatches>,
    /// How many by words, and how many by meaning.
    pub limit: usize,
}

/// A chunk that was found by its words, by its meaning or by both.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its document.
    pub document: DocumentId,
    /// Whether it is code.
    pub is_code: bool,
    /// Its place among those found by words, from 0, and its score there; none if it is not among them.
    pub lexical: Option<(usize, f32)>,
    /// Its place among those found by meaning, from 0.
    pub dense: Option<usize>,
    /// The cosine of question and chunk; none without a vector.
    pub cosine: Option<f32>,
}

/// Finds passages for a question.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// Whether there is nothing in the knowledge base that could be found.
    fn is_empty(&self) -> bool;

    /// Finds passages, best first, and tells the stages as they begin and end.
    async fn retrieve(
        &self,
        who: &Principal,
        query: RetrievalQuery,
        stages: &(dyn Fn(Stage) + Send + Sync),
    ) -> Result<Retrieved, Failure>;
}

/// What is to be found.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievalQuery {
    /// The words.
    pub text: String,
    /// Where to look.
    pub scope: SearchScope,
    /// RetrievedPassages whose cosine with the question is less are left out.
    pub threshold: Option<f32>,
    /// How many passages.
    pub limit: usize,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retrieved {
    /// The passages, best first.
    pub passages: Vec<Hit>,
    /// How many chunks were looked at: those found by words or by meaning.
    pub candidates: usize,
    /// Whether anything in it is likely to answer the question.
    pub is_relevant: bool,
}

/// A passage, and why it stands where it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The passage.
    pub passage: Passage,
    /// As the index found it.
    pub candidate: Candidate,
    /// Its place in the one order that was made of words and meaning, from 0, and its score there.
    pub fused: (usize, f32),
    /// Its place after reranking, from 0, and its score there; none if nothing was reranked.
    pub reranked: Option<(usize, f32)>,
}

/// A stage on the way to an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// It began.
    Began(StageName),
    /// It ended.
    Ended {
        /// PromptFilter one.
        name: StageName,
        /// How many chunks it left.
        count: usize,
        /// How long it took.
        took: Duration,
    },
}

/// PromptFilter stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageName {
    /// A question that goes on from an earlier one is made into one that stands alone.
    Rewriting,
    /// Candidates are found.
    Retrieval,
    /// They are put in order.
    Reranking,
}
