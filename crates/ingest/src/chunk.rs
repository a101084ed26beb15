//! Cuts a document into chunks, the pieces that are stored, embedded and found. Nothing is lost: the chunks of
//! the strategy `structure` cover the document exactly, in order and without overlap.

mod describe;
mod join;
mod seams;
mod split;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;

use crate::Parsed;

/// A token has seldom more bytes: what has more than the budget in such tokens is too large without counting.
const MOST_BYTES_A_TOKEN: usize = 16;

/// Bytes of a chunk, unless its budget has room for more text. White space has no tokens, but takes room.
const CHUNK_BYTES: usize = 32 << 10;

/// A piece of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its bytes in the document.
    pub range: Range<usize>,
    /// The lines its text begins and ends on, counted from 1. White space around it does not count, unless there
    /// is nothing else.
    pub lines: (u32, u32),
    /// What it is a piece of; nothing for code.
    pub chunk_type: Option<ChunkType>,
    /// The first heading above it, below the title; in code the enclosing type.
    pub section: Option<String>,
    /// The second heading above it; in code the enclosing function.
    pub subsection: Option<String>,
    /// The innermost heading or definition that it is in.
    pub heading: Option<Heading>,
    /// What is embedded together with it but is not part of it: the headings above it, without the title, or
    /// the signatures around it.
    pub context: String,
}

/// A heading, or a definition's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Its text.
    pub text: String,
    /// What a link to it ends with, after the `#`; nothing for code.
    pub anchor: Option<String>,
}

/// What a chunk of prose is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkType {
    /// A whole section, without its subsections.
    Section,
    /// A whole section below another one.
    Subsection,
    /// Paragraphs of a section that was too large, or of a text without headings.
    ParagraphGroup,
}

impl ChunkType {
    /// The name it is stored and filtered by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Section => "section",
            Self::Subsection => "subsection",
            Self::ParagraphGroup => "paragraph_group",
        }
    }
}

/// How documents are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Along headings and paragraphs, definitions and lines.
    Structure(Budget),
    /// Every 250 words, 350 at a time, as a common Python baseline does it. Chunks overlap.
    Words,
}

/// How large a chunk may be, in the embedder's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// A chunk has no more than these, unless a single character does.
    pub most: usize,
    /// A chunk that has fewer is joined with a neighbour where both fit together.
    pub least: usize,
}

impl Budget {
    /// Bytes that a chunk may have, white space and all.
    fn most_bytes(self) -> usize {
        self.most.saturating_mul(MOST_BYTES_A_TOKEN).max(CHUNK_BYTES)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { most: 350, least: 60 }
    }
}

/// Counts a text's tokens. It may be slow: it is asked for few, large texts, and never for huge ones.
pub type CountTokens<'a> = dyn Fn(&str) -> usize + 'a;

/// Cuts a document. Along its structure, one that is empty or only white space has no chunks.
pub fn chunks(document: &Parsed<'_>, strategy: Strategy, count_tokens: &CountTokens<'_>) -> Vec<Chunk> {
    match strategy {
        Strategy::Structure(_) if document.text().trim().is_empty() => Vec::new(),
        Strategy::Structure(budget) => {
            let pieces = split::split(document, budget, count_tokens);
            describe::pieces(document, &join::join(document.text(), pieces, budget))
        }
        Strategy::Words => describe::windows(document, words::windows(document.text())),
    }
}
