//! What is known: documents, and the chunks of them that are searched.

use std::collections::BTreeMap;
use std::ops::Range;

use uuid::Uuid;

use crate::{ChunkId, DocumentId};

/// A whole document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Made of its place, so that a document that is read again is the same document.
    pub id: DocumentId,
    /// Where it is.
    pub place: DocumentLocation,
    /// How it came here.
    pub source: SourceKind,
    /// Its title.
    pub title: String,
    /// Its programming language.
    pub language: Option<String>,
    /// Where a reader can open it.
    pub url: Option<String>,
    /// The part of the documentation that it belongs to.
    pub module: Option<String>,
    /// What its author filed it under.
    pub tags: Vec<String>,
    /// What its owner says about it.
    pub metadata: Metadata,
    /// All of it.
    pub text: String,
}

/// Where a document is. No two documents of a tenant share a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentLocation {
    /// The collection it is filed in.
    pub collection: String,
    /// The repository, or another root.
    pub repo_url: String,
    /// The path in it.
    pub file_path: String,
}

impl DocumentLocation {
    /// The id of the document at this place.
    pub fn document(&self) -> DocumentId {
        let name = [&self.collection, &self.repo_url, &self.file_path].map(String::as_str).join("\0");
        DocumentId(Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()))
    }
}

/// How a document came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A client sent it.
    Api,
    /// It was read from a folder.
    Folder,
    /// It was read from a repository.
    Git,
    /// It was read from the web.
    Web,
}

/// Entries by name; a value is JSON, as text.
pub type Metadata = BTreeMap<String, String>;

/// A piece of a document that is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Made of its document and its words, so that what did not change keeps its id and its vector.
    pub id: ChunkId,
    /// Where it is in the document's text, in bytes.
    pub bytes: Range<usize>,
    /// Its first and last line, counted from 1.
    pub lines: (u32, u32),
    /// What it is in prose; none in code.
    pub kind: Option<ChunkKind>,
    /// The first heading above it, below the title; in code the enclosing type.
    pub section: Option<String>,
    /// The second; in code the enclosing function.
    pub subsection: Option<String>,
    /// Where its innermost heading can be linked to.
    pub anchor: Option<String>,
    /// What stands above it: headings, or enclosing signatures. It is searched with the chunk and is no part
    /// of it.
    pub context: String,
}

impl Chunk {
    /// The id of a chunk with these words in a document; `earlier` have the same words.
    pub fn id(document: DocumentId, context: &str, text: &str, earlier: usize) -> ChunkId {
        let name = format!("{earlier}\0{context}\0{text}");
        ChunkId(Uuid::new_v5(&document.0, name.as_bytes()))
    }
}

/// What a chunk of prose is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// All that is below a first heading.
    Section,
    /// All that is below a deeper heading.
    Subsection,
    /// Some paragraphs of one.
    ParagraphGroup,
}
