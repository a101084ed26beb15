//! The catalog: the truth about documents. Whatever is searched is derived from it.

use async_trait::async_trait;

use crate::{Chunk, ChunkId, Document, DocumentId, Filters, Passage, Principal, StorageError, Timestamp};

/// Keeps documents, their chunks and the chunks' vectors. Every change has a revision, which is counted up in
/// the transaction that makes the change.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Files documents, all or none, and tells what became of each. One that is there is replaced; its chunks
    /// that did not change keep their vectors. One with the same digest stays as it is.
    async fn put(
        &self,
        who: &Principal,
        documents: Vec<NewDocument>,
    ) -> Result<Vec<PutOutcome>, StorageError>;

    /// Removes documents, and tells how many there were.
    async fn remove(&self, who: &Principal, documents: &[DocumentId]) -> Result<u64, StorageError>;

    /// A document.
    async fn document(&self, who: &Principal, id: DocumentId)
    -> Result<Option<StoredDocument>, StorageError>;

    /// Documents without their texts, of one root or of all, the newest first; and how many there are.
    async fn documents(
        &self,
        who: &Principal,
        repo_url: Option<&str>,
        skip: u64,
        limit: usize,
    ) -> Result<(Vec<StoredDocument>, u64), StorageError>;

    /// The collections by name, and how many documents each has.
    async fn collections(&self, who: &Principal) -> Result<Vec<(String, u64)>, StorageError>;

    /// What is known of a root in a collection, so that only what changed is read again.
    async fn known(
        &self,
        who: &Principal,
        collection: &str,
        repo_url: &str,
    ) -> Result<Vec<KnownFile>, StorageError>;

    /// What passes filters.
    async fn matching(&self, who: &Principal, filters: &Filters) -> Result<FilterMatches, StorageError>;

    /// Chunks with their documents, for passages; those that are gone are left out.
    async fn pieces(&self, who: &Principal, chunks: &[ChunkId]) -> Result<Vec<StoredChunk>, StorageError>;

    /// Some chunks, of every tenant, that have no vector of a model yet.
    async fn unembedded(&self, model: &str, limit: usize) -> Result<Vec<UnembeddedChunk>, StorageError>;

    /// All chunks of these documents that have no vector of a model yet.
    async fn unembedded_of(
        &self,
        who: &Principal,
        documents: &[DocumentId],
        model: &str,
    ) -> Result<Vec<UnembeddedChunk>, StorageError>;

    /// Adds vectors of a model. Those of chunks that are gone meanwhile are dropped.
    async fn put_vectors(
        &self,
        model: &str,
        vectors: Vec<(UnembeddedChunk, Vec<f32>)>,
    ) -> Result<(), StorageError>;

    /// What happened after a revision, of every tenant, with vectors of one model. A revision is never split, so
    /// a document is seen wholly old or wholly new; whole revisions are told until there are `limit` chunks. If
    /// this catalog never had the revision, it tells revision 0 and that there is more: begin anew from there.
    async fn changes_since(
        &self,
        revision: u64,
        model: &str,
        limit: usize,
    ) -> Result<CatalogChanges, StorageError>;
}

/// Knows how far what is searched is behind the catalog.
#[async_trait]
pub trait IndexSync: Send + Sync {
    /// Waits until all that was filed before this call is searchable.
    async fn wait_until_searchable(&self) -> Result<(), StorageError>;
}

/// A document to be filed, cut into chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct NewDocument {
    /// The document.
    pub document: Document,
    /// Its chunks, in their order.
    pub chunks: Vec<Chunk>,
    /// Of everything that went into it: its text, its names, how it was cut.
    pub digest: [u8; 32],
    /// When.
    pub at: Timestamp,
}

/// What became of a document that was to be filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// It was new.
    Added,
    /// It took the place of an older one.
    Replaced,
    /// It is there already.
    Unchanged,
}

/// A document in the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDocument {
    /// The document; in lists without its text.
    pub document: Document,
    /// When it was first filed.
    pub created_at: Timestamp,
    /// When it was last replaced.
    pub updated_at: Timestamp,
    /// How many chunks it has.
    pub chunk_count: u64,
}

/// What is known of one file of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFile {
    /// The path.
    pub file_path: String,
    /// The document.
    pub document: DocumentId,
    /// Its digest.
    pub digest: [u8; 32],
}

/// What passes filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterMatches {
    /// The documents.
    pub documents: Vec<DocumentId>,
    /// The chunks of them, if a filter tells chunks of one document apart; none if all of theirs pass.
    pub chunks: Option<Vec<ChunkId>>,
}

/// A chunk with what a passage tells of its document.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredChunk {
    /// The chunk.
    pub chunk: Chunk,
    /// Its words.
    pub text: String,
    /// The document's words right before it, few of them.
    pub before: String,
    /// Its document, without the text.
    pub document: Document,
}

impl StoredChunk {
    /// The passage that it is when it was found, with the cosine of question and passage.
    pub fn into_passage(self, score: f32) -> Passage {
        let Self { chunk, text, before, document } = self;
        let url = match (document.url, chunk.anchor) {
            (Some(url), Some(anchor)) => Some(format!("{url}#{anchor}")),
            (url, _) => url,
        };
        Passage {
            chunk: chunk.id,
            document: document.id,
            title: document.title,
            repo_url: Some(document.place.repo_url),
            file_path: Some(document.place.file_path),
            url,
            section: chunk.section,
            subsection: chunk.subsection,
            lines: Some(chunk.lines),
            chars: None,
            text: without_blank_lines_around(&text).to_owned(),
            before: without_blank_lines_around(&before).to_owned(),
            score,
        }
    }
}

/// The lines of a chunk, which covers the blank lines around them too. The first one keeps its indentation.
fn without_blank_lines_around(text: &str) -> &str {
    let blank = text.len() - text.trim_start().len();
    let first = text[..blank].rfind(['\n', '\r']).map_or(0, |end| end + 1);
    text[first..].trim_end()
}

/// A chunk that has no vector yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnembeddedChunk {
    /// Whose it is.
    pub who: Principal,
    /// The chunk.
    pub chunk: ChunkId,
    /// What is to be embedded: its document's title, what stands above it, and its words.
    pub text: String,
}

/// What happened to chunks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatalogChanges {
    /// Up to this revision.
    pub revision: u64,
    /// Whether there is more.
    pub more: bool,
    /// Chunks that are gone.
    pub removed: Vec<(Principal, ChunkId)>,
    /// Chunks that are new or have a vector now; and the others of their documents, which may be there already.
    pub added: Vec<IndexedChunk>,
}

/// A chunk as it is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedChunk {
    /// Whose it is.
    pub who: Principal,
    /// The chunk.
    pub chunk: ChunkId,
    /// Its document.
    pub document: DocumentId,
    /// Its document's title.
    pub title: String,
    /// Its document's path.
    pub file_path: String,
    /// What stands above it.
    pub context: String,
    /// Its words.
    pub text: String,
    /// Whether it is code.
    pub is_code: bool,
    /// Its vector, if it has one of the model yet.
    pub vector: Option<Vec<f32>>,
}
