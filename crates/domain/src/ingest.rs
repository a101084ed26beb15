//! Taking documents in.

use async_trait::async_trait;

use crate::{DocumentId, DocumentLocation, Metadata, Principal, Rejection, SourceKind};

/// Reads documents into the knowledge base.
#[async_trait]
pub trait Ingest: Send + Sync {
    /// Takes documents in, and answers when they can be found by words and by meaning. What became of each is
    /// told in their order; one that cannot be taken in stops no other.
    async fn ingest(
        &self,
        who: &Principal,
        documents: Vec<RawDocument>,
    ) -> Result<Vec<Result<IngestedDocument, IngestFailure>>, Rejection>;
}

/// A document as it comes.
#[derive(Clone, Debug, PartialEq)]
pub struct RawDocument {
    /// Where it is.
    pub place: DocumentLocation,
    /// How it came here.
    pub source: SourceKind,
    /// Its title, if one is given.
    pub title: Option<String>,
    /// All of it.
    pub text: String,
    /// What its owner says about it.
    pub metadata: Metadata,
}

/// A document that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestedDocument {
    /// The document.
    pub document: DocumentId,
    /// How many chunks it has.
    pub chunks: usize,
}

/// Why a document was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestFailure {
    /// Where it is.
    pub place: DocumentLocation,
    /// How far it came.
    pub stage: IngestStage,
    /// What is wrong and what to do.
    pub message: String,
}

/// The stages of taking a document in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngestStage {
    /// It is read.
    Reading,
    /// It is taken apart.
    Parsing,
    /// It is filed in the catalog.
    Filing,
    /// Its chunks get their vectors.
    Embedding,
    /// It becomes searchable.
    Indexing,
}
