//! What was found.

use crate::{ChunkId, DocumentId};

/// A piece of a document that was found for a question and went into the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The stored piece.
    pub chunk: ChunkId,
    /// The document it is a piece of.
    pub document: DocumentId,
    /// The document's title.
    pub title: String,
    /// The repository it comes from.
    pub repo_url: Option<String>,
    /// Where it lies in that repository.
    pub file_path: Option<String>,
    /// Where a reader can open it.
    pub url: Option<String>,
    /// First and last line, counted from 1.
    pub lines: Option<(u32, u32)>,
    /// The words themselves.
    pub text: String,
    /// Cosine of question and passage, 0 to 1.
    pub score: f32,
}
