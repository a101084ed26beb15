//! Gives pieces the names by which people know them: section, heading, lines, context.

use std::ops::Range;

use super::split::Piece;
use super::{Chunk, ChunkType, Heading};
use crate::Parsed;
use crate::lines::Numbers;
use crate::outline::{Manner, Scope, ScopeKind};

/// Characters of a chunk's context; the innermost headings or signatures that fit are kept.
const CONTEXT_CHARS: usize = 400;

/// The chunks that pieces become.
pub(super) fn pieces(document: &Parsed<'_>, pieces: &[Piece]) -> Vec<Chunk> {
    let lines = document.line_numbers();
    let chunk = |piece: &Piece| {
        let path = document.outline().path(piece.scope);
        Chunk {
            chunk_type: chunk_type(document, &path, piece.whole),
            context: context(document, &path, piece.range.start),
            ..named(document, &lines, piece.range.clone(), &path)
        }
    };
    pieces.iter().map(chunk).collect()
}

/// The chunks that windows of words become. They are embedded as they are, without a context.
pub(super) fn windows(document: &Parsed<'_>, windows: Vec<Range<usize>>) -> Vec<Chunk> {
    let lines = document.line_numbers();
    let chunk = |window: Range<usize>| {
        let path = document.outline().path(document.outline().scope_at(window.start));
        Chunk { chunk_type: chunk_type(document, &path, false), ..named(document, &lines, window, &path) }
    };
    windows.into_iter().map(chunk).collect()
}

fn named(document: &Parsed<'_>, lines: &Numbers, range: Range<usize>, path: &[&Scope]) -> Chunk {
    let innermost = path.iter().rfind(|scope| scope.kind != ScopeKind::Title);
    let (section, subsection) = sections(path);
    Chunk {
        lines: lines_of(document.text(), lines, &range),
        range,
        chunk_type: None,
        section,
        subsection,
        heading: innermost
            .map(|scope| Heading { text: scope.name().to_owned(), anchor: scope.anchor.clone() }),
        context: String::new(),
    }
}

fn lines_of(text: &str, lines: &Numbers, range: &Range<usize>) -> (u32, u32) {
    let piece = &text[range.clone()];
    if piece.trim().is_empty() {
        return (lines.line(range.start), lines.line(range.end.max(range.start + 1) - 1));
    }
    let first = range.start + (piece.len() - piece.trim_start().len());
    let last = range.start + piece.trim_end().len();
    (lines.line(first), lines.line(last - 1))
}

/// In prose the two outermost headings below the title, in code the innermost type and the function in it.
fn sections(path: &[&Scope]) -> (Option<String>, Option<String>) {
    let innermost_type = path.iter().rposition(|scope| scope.kind == ScopeKind::Type);
    let function =
        path.iter().skip(innermost_type.unwrap_or(0)).find(|scope| scope.kind == ScopeKind::Function);
    let headings = path.iter().filter(|scope| scope.kind == ScopeKind::Heading);
    let definitions = innermost_type.map(|position| &path[position]).into_iter().chain(function);
    let mut names = headings.chain(definitions).map(|scope| scope.name().to_owned());
    (names.next(), names.next())
}

fn chunk_type(document: &Parsed<'_>, path: &[&Scope], whole: bool) -> Option<ChunkType> {
    if document.outline().manner == Manner::Code {
        return None;
    }
    if path.is_empty() || !whole {
        return Some(ChunkType::ParagraphGroup);
    }
    let headings = path.iter().filter(|scope| scope.kind == ScopeKind::Heading).count();
    Some(if headings > 1 { ChunkType::Subsection } else { ChunkType::Section })
}

fn context(document: &Parsed<'_>, path: &[&Scope], start: usize) -> String {
    let mut left = CONTEXT_CHARS;
    let above = path.iter().rev().filter(|scope| scope.kind != ScopeKind::Title && scope.start < start);
    let mut signatures: Vec<&str> = above
        .map(|scope| scope.signature())
        .take_while(|signature| {
            let length = signature.chars().count();
            let fits = length <= left;
            left = left.saturating_sub(length);
            fits
        })
        .collect();
    signatures.reverse();
    signatures.join(if document.outline().manner == Manner::Code { "\n" } else { " > " })
}
