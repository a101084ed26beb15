//! Splits a document into chunks, the unit of storage, embedding and search.
//!
//! With the strategy `structure`, `split` splits a document at its headings and definitions, and parts that exceed
//! the budget at weaker and weaker `boundaries`; `merge` joins pieces that are too small with a neighbour; `annotate`
//! adds headings, lines and context. The chunks cover the document in order, without gaps and without overlap.

mod annotate;
mod boundaries;
mod ids;
mod merge;
mod split;
#[cfg(test)]
mod tests;
mod word_windows;

use std::ops::Range;

use domain::ChunkKind;

use crate::ParsedDocument;
pub use ids::with_ids;

/// Upper bound on the bytes of an average token. A text with more bytes than the budget allows for such tokens is
/// too large, which spares counting its tokens.
const MAX_BYTES_PER_TOKEN: usize = 16;

/// Maximum bytes of a chunk, unless the budget has room for more text. It bounds white space, which has no tokens.
const CHUNK_BYTES: usize = 32 << 10;

/// A chunk of a document's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChunk {
    /// Its position in the document, in bytes.
    pub range: Range<usize>,
    /// The first and last line of its text, counted from 1. White space at its ends is excluded, unless there is
    /// nothing else.
    pub lines: (u32, u32),
    /// What the chunk is in prose; `None` in code.
    pub kind: Option<ChunkKind>,
    /// The topmost heading above it, below the title; in code the enclosing type.
    pub section: Option<String>,
    /// The heading below that; in code the enclosing function.
    pub subsection: Option<String>,
    /// The innermost heading or definition around it.
    pub heading: Option<Heading>,
    /// The headings above it, without the title, or the signatures around it. They are embedded with the chunk but
    /// are not part of its text.
    pub context: String,
}

/// A heading of prose or the name of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Its text.
    pub text: String,
    /// The fragment of a link to it; `None` in code.
    pub anchor: Option<String>,
}

/// How documents are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkStrategy {
    /// Along headings and paragraphs, definitions and lines.
    Structure(ChunkBudget),
    /// Windows of 350 words that overlap by 100, as in a common Python baseline.
    Words,
}

/// The size of a chunk, in tokens of the embedding model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkBudget {
    /// A chunk has at most this many tokens, unless a single character has more.
    pub max_tokens: usize,
    /// A chunk with fewer tokens is merged with a neighbour, if both fit the budget together.
    pub min_tokens: usize,
}

impl ChunkBudget {
    /// Maximum bytes of a chunk, including white space.
    fn max_bytes(self) -> usize {
        self.max_tokens.saturating_mul(MAX_BYTES_PER_TOKEN).max(CHUNK_BYTES)
    }
}

impl Default for ChunkBudget {
    fn default() -> Self {
        Self { max_tokens: 350, min_tokens: 60 }
    }
}

/// Counts the tokens of a text. It may be slow: it is called at most twice per chunk on average, and never for a
/// text that is much larger than the budget.
pub type CountTokens<'a> = dyn Fn(&str) -> usize + 'a;

/// Splits a document. With `structure`, a document without text other than white space has no chunks.
pub fn chunk_document(
    document: &ParsedDocument<'_>,
    strategy: ChunkStrategy,
    count_tokens: &CountTokens<'_>,
) -> Vec<TextChunk> {
    match strategy {
        ChunkStrategy::Structure(_) if document.text().trim().is_empty() => Vec::new(),
        ChunkStrategy::Structure(budget) => {
            let pieces = split::split(document, budget, count_tokens);
            annotate::pieces(document, &merge::merge(document.text(), pieces, budget))
        }
        ChunkStrategy::Words => annotate::windows(document, word_windows::windows(document.text())),
    }
}
