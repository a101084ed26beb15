//! Documents, and the chunks into which they are divided for search.

use std::collections::BTreeMap;
use std::ops::Range;

use uuid::Uuid;

use crate::{ChunkId, DocumentId};

/// A document with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Derived from the location, so that a file that is read again keeps its id.
    pub id: DocumentId,
    /// Where the document is from.
    pub place: DocumentLocation,
    /// How the document was ingested.
    pub source: SourceKind,
    /// Its title.
    pub title: String,
    /// The programming language; `None` for prose.
    pub language: Option<String>,
    /// The address at which a reader can open it.
    pub url: Option<String>,
    /// The part of the documentation it belongs to, such as a library.
    pub module: Option<String>,
    /// Tags from its front matter.
    pub tags: Vec<String>,
    /// Entries that the client attached.
    pub metadata: Metadata,
    /// The whole text.
    pub text: String,
}

/// Where a document is from. Unique within a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentLocation {
    /// The collection that holds it.
    pub collection: String,
    /// The address of the repository, or of another root such as a folder or a site.
    pub repo_url: String,
    /// The path within the repository.
    pub file_path: String,
}

impl DocumentLocation {
    /// The id of the document at this location: a UUIDv5 of its three parts.
    pub fn document(&self) -> DocumentId {
        let name = [&self.collection, &self.repo_url, &self.file_path].map(String::as_str).join("\0");
        DocumentId(Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()))
    }
}

/// How a document was ingested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Sent by a client.
    Api,
    /// Read from a folder.
    Folder,
    /// Read from a git repository.
    Git,
    /// Read from a web site.
    Web,
}

/// Entries by name; each value is JSON, as text.
pub type Metadata = BTreeMap<String, String>;

/// A part of a document: the unit of search.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Derived from the document, the context and the text, so that an unchanged chunk keeps its id and its
    /// vector.
    pub id: ChunkId,
    /// Position in the document's text, in bytes.
    pub bytes: Range<usize>,
    /// First and last line, counted from 1.
    pub lines: (u32, u32),
    /// What the chunk is in prose; `None` in code.
    pub kind: Option<ChunkKind>,
    /// The topmost heading above it, below the title; in code the enclosing type.
    pub section: Option<String>,
    /// The heading below that; in code the enclosing function.
    pub subsection: Option<String>,
    /// The fragment of a link to the innermost heading.
    pub anchor: Option<String>,
    /// The headings, or the enclosing signatures, above the chunk. They are searched and embedded with the
    /// chunk but are not part of its text.
    pub context: String,
}

impl Chunk {
    /// The id of a chunk. `earlier` counts the chunks before it in the document with the same context and
    /// text.
    pub fn id(document: DocumentId, context: &str, text: &str, earlier: usize) -> ChunkId {
        let name = format!("{earlier}\0{context}\0{text}");
        ChunkId(Uuid::new_v5(&document.0, name.as_bytes()))
    }
}

/// What a chunk of prose is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// The text below a top-level heading, up to its first subheading.
    Section,
    /// The text below a deeper heading, up to the next heading.
    Subsection,
    /// Paragraphs of a section that is too large, or of a text without headings.
    ParagraphGroup,
}
