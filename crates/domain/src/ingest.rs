//! The ingest of documents that a client sends.

use async_trait::async_trait;

use crate::{DocumentId, DocumentLocation, Metadata, Principal, Rejection, SourceKind};

/// Adds documents to the knowledge base.
#[async_trait]
pub trait Ingest: Send + Sync {
    /// Ingests documents, and returns once they are searchable by words and by vectors. The results are in
    /// the documents' order; a failed document does not affect the others.
    async fn ingest(
        &self,
        who: &Principal,
        documents: Vec<RawDocument>,
    ) -> Result<Vec<Result<IngestedDocument, IngestFailure>>, Rejection>;
}

/// A document before it is parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct RawDocument {
    /// Where it is from.
    pub place: DocumentLocation,
    /// How it was ingested.
    pub source: SourceKind,
    /// The title; `None` to take it from the text.
    pub title: Option<String>,
    /// The whole text.
    pub text: String,
    /// Entries that the client attached.
    pub metadata: Metadata,
}

/// A document that was ingested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestedDocument {
    /// The document.
    pub document: DocumentId,
    /// Number of its chunks.
    pub chunks: usize,
}

/// Why a document was not ingested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestFailure {
    /// Where it is from.
    pub place: DocumentLocation,
    /// The stage that failed.
    pub stage: IngestStage,
    /// What is wrong and what to do.
    pub message: String,
}

/// The stages of an ingest, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngestStage {
    /// Its bytes are read.
    Reading,
    /// It is parsed and chunked.
    Parsing,
    /// It is stored in the catalog.
    Filing,
    /// Its chunks are embedded.
    Embedding,
    /// The index takes in its chunks.
    Indexing,
}
