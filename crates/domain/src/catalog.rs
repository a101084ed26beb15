//! The catalog of documents: the source of truth, from which the search index is derived.

use async_trait::async_trait;

use crate::{Chunk, ChunkId, Document, DocumentId, Filters, Passage, Principal, StorageError, Timestamp};

/// Stores documents, their chunks and the chunks' vectors.
///
/// Every write has a revision, a counter that is increased in the transaction of the write, so that an index
/// can follow the catalog with [`Catalog::changes_since`].
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Stores documents in one transaction, and returns one outcome per document, in order. A document that
    /// exists is replaced; its unchanged chunks keep their vectors. One with an equal digest is left as it
    /// is.
    async fn put(
        &self,
        who: &Principal,
        documents: Vec<NewDocument>,
    ) -> Result<Vec<PutOutcome>, StorageError>;

    /// Removes documents and returns how many existed.
    async fn remove(&self, who: &Principal, documents: &[DocumentId]) -> Result<u64, StorageError>;

    /// The document with this id, with its text.
    async fn document(&self, who: &Principal, id: DocumentId)
    -> Result<Option<StoredDocument>, StorageError>;

    /// A page of documents without their texts, the newest first, of one repository or of all; and the total
    /// number.
    async fn documents(
        &self,
        who: &Principal,
        repo_url: Option<&str>,
        skip: u64,
        limit: usize,
    ) -> Result<(Vec<StoredDocument>, u64), StorageError>;

    /// The collections by name, each with its number of documents.
    async fn collections(&self, who: &Principal) -> Result<Vec<(String, u64)>, StorageError>;

    /// The stored files of one repository in a collection with their digests, so that an ingest skips
    /// unchanged files and removes vanished ones.
    async fn known(
        &self,
        who: &Principal,
        collection: &str,
        repo_url: &str,
    ) -> Result<Vec<KnownFile>, StorageError>;

    /// Resolves filters to documents and chunks.
    async fn matching(&self, who: &Principal, filters: &Filters) -> Result<FilterMatches, StorageError>;

    /// The chunks with their documents, to build passages from. Chunks that no longer exist are left out.
    async fn chunks(&self, who: &Principal, chunks: &[ChunkId]) -> Result<Vec<StoredChunk>, StorageError>;

    /// At most `limit` chunks, of any tenant, that have no vector of this model.
    async fn unembedded(&self, model: &str, limit: usize) -> Result<Vec<UnembeddedChunk>, StorageError>;

    /// All chunks of these documents that have no vector of this model.
    async fn unembedded_of(
        &self,
        who: &Principal,
        documents: &[DocumentId],
        model: &str,
    ) -> Result<Vec<UnembeddedChunk>, StorageError>;

    /// Stores vectors of a model. Vectors of chunks that were removed meanwhile are dropped.
    async fn put_vectors(
        &self,
        model: &str,
        vectors: Vec<(UnembeddedChunk, Vec<f32>)>,
    ) -> Result<(), StorageError>;

    /// The changes after `revision`, of every tenant, with the vectors of one model.
    ///
    /// Returns whole revisions until they contain `limit` chunks, so that a document is seen either entirely
    /// old or entirely new. If this catalog never had `revision`, it returns revision 0 and `more`: the
    /// follower starts again from an empty index.
    async fn changes_since(
        &self,
        revision: u64,
        model: &str,
        limit: usize,
    ) -> Result<CatalogChanges, StorageError>;
}

/// Reports how far the search index is behind the catalog.
#[async_trait]
pub trait IndexSync: Send + Sync {
    /// Waits until every write that completed before this call is searchable.
    async fn wait_until_searchable(&self) -> Result<(), StorageError>;
}

/// A document to be stored, already chunked.
#[derive(Clone, Debug, PartialEq)]
pub struct NewDocument {
    /// The document.
    pub document: Document,
    /// The chunks, in the order of the text.
    pub chunks: Vec<Chunk>,
    /// A hash over all that determines the stored form: the text, the names and the chunking.
    pub digest: [u8; 32],
    /// The time of the write.
    pub at: Timestamp,
}

/// What a write did with one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The document was new.
    Added,
    /// The document replaced an older version.
    Replaced,
    /// The stored document has the same digest; nothing was written.
    Unchanged,
}

/// A document as stored in the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDocument {
    /// The document; in lists its text is empty.
    pub document: Document,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When it was last replaced.
    pub updated_at: Timestamp,
    /// Number of its chunks.
    pub chunk_count: u64,
}

/// A stored file of a repository, as an incremental ingest compares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFile {
    /// The path within the repository.
    pub file_path: String,
    /// The document that holds the file.
    pub document: DocumentId,
    /// The document's digest, see [`NewDocument::digest`].
    pub digest: [u8; 32],
}

/// What a set of filters matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterMatches {
    /// The matching documents.
    pub documents: Vec<DocumentId>,
    /// The matching chunks of those documents; `None` if every chunk of theirs matches, as is the case unless
    /// a filter compares headings.
    pub chunks: Option<Vec<ChunkId>>,
}

/// A chunk with the fields of its document that a passage carries.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredChunk {
    /// The chunk.
    pub chunk: Chunk,
    /// The chunk's text.
    pub text: String,
    /// The document, without its text.
    pub document: Document,
}

impl StoredChunk {
    /// The passage for this chunk, with the cosine of question and chunk as its score.
    pub fn into_passage(self, score: f32) -> Passage {
        let Self { chunk, text, document } = self;
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
            score,
        }
    }
}

/// Removes the blank lines at both ends of a chunk; the first line keeps its indentation.
fn without_blank_lines_around(text: &str) -> &str {
    let blank = text.len() - text.trim_start().len();
    let first = text[..blank].rfind(['\n', '\r']).map_or(0, |end| end + 1);
    text[first..].trim_end()
}

/// A chunk without a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnembeddedChunk {
    /// The tenant that owns it.
    pub who: Principal,
    /// The chunk.
    pub chunk: ChunkId,
    /// The text to embed: the document's title, the chunk's context and its text.
    pub text: String,
}

/// What changed in the catalog between two revisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatalogChanges {
    /// The revision up to which the changes are complete.
    pub revision: u64,
    /// Whether later revisions exist.
    pub more: bool,
    /// Chunks that no longer exist.
    pub removed: Vec<(Principal, ChunkId)>,
    /// Chunks that are new or got a vector, together with the other chunks of their documents, which the
    /// index may already have.
    pub added: Vec<IndexedChunk>,
}

/// A chunk as the index stores it.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedChunk {
    /// The tenant that owns it.
    pub who: Principal,
    /// The chunk.
    pub chunk: ChunkId,
    /// The document that contains it.
    pub document: DocumentId,
    /// The document's title.
    pub title: String,
    /// The document's path.
    pub file_path: String,
    /// The headings or signatures above the chunk, see [`Chunk::context`].
    pub context: String,
    /// The chunk's text.
    pub text: String,
    /// Whether the chunk is code rather than prose.
    pub is_code: bool,
    /// The vector; `None` until the chunk is embedded.
    pub vector: Option<Vec<f32>>,
}
