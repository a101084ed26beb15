//! What was found, and what of it an answer rests on.

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
    /// The first heading above it, below the title; in code the enclosing type.
    pub section: Option<String>,
    /// The second; in code the enclosing function.
    pub subsection: Option<String>,
    /// First and last line, counted from 1.
    pub lines: Option<(u32, u32)>,
    /// Its first character and the one behind its last, in the selection that it is from; none for a document.
    pub chars: Option<(u32, u32)>,
    /// The words themselves.
    pub text: String,
    /// Cosine of question and passage, 0 to 1.
    pub score: f32,
}

impl Passage {
    /// The innermost heading above it.
    pub fn heading(&self) -> Option<&str> {
        self.subsection.as_deref().or(self.section.as_deref())
    }

    /// Where a reader finds it: its address, or the path in its repository.
    pub fn source_url(&self) -> String {
        match (&self.url, &self.repo_url, &self.file_path) {
            (Some(url), ..) => url.clone(),
            (None, Some(repo), Some(path)) => format!("{repo}/{path}"),
            (None, repo, path) => repo.as_ref().or(path.as_ref()).cloned().unwrap_or_default(),
        }
    }
}

/// A passage that an answer rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// Its number in the prompt, from 1.
    pub number: u32,
    /// The words of the passage that support the answer, verbatim; none if the answer only names its number.
    pub quote: Option<String>,
}
