//! Adds headings, lines, context and kind to the ranges that become chunks.

use std::ops::Range;

use domain::ChunkKind;

use super::split::Piece;
use super::{Heading, TextChunk};
use crate::ParsedDocument;
use crate::parse::{LineNumbers, Scope, ScopeKind, TextKind};

/// Maximum characters of a chunk's context. The innermost headings or signatures that fit are used.
const CONTEXT_CHARS: usize = 400;

/// The chunks of merged pieces.
pub(super) fn pieces(document: &ParsedDocument<'_>, pieces: &[Piece]) -> Vec<TextChunk> {
    let lines = document.line_numbers();
    let chunk = |piece: &Piece| {
        let path = document.outline().path(piece.scope);
        TextChunk {
            kind: chunk_kind(document, &path, piece.is_whole),
            context: context(document, &path, piece.range.start),
            ..with_headings(document, &lines, piece.range.clone(), &path)
        }
    };
    pieces.iter().map(chunk).collect()
}

/// The chunks of word windows, which have no context.
pub(super) fn windows(document: &ParsedDocument<'_>, windows: Vec<Range<usize>>) -> Vec<TextChunk> {
    let lines = document.line_numbers();
    let chunk = |window: Range<usize>| {
        let path = document.outline().path(document.outline().scope_at(window.start));
        TextChunk {
            kind: chunk_kind(document, &path, false),
            ..with_headings(document, &lines, window, &path)
        }
    };
    windows.into_iter().map(chunk).collect()
}

fn with_headings(
    document: &ParsedDocument<'_>,
    lines: &LineNumbers,
    range: Range<usize>,
    path: &[&Scope],
) -> TextChunk {
    let innermost = path.iter().rfind(|scope| scope.kind != ScopeKind::Title);
    let (section, subsection) = sections(path);
    TextChunk {
        lines: lines_of(document.text(), lines, &range),
        range,
        kind: None,
        section,
        subsection,
        heading: innermost
            .map(|scope| Heading { text: scope.name().to_owned(), anchor: scope.anchor.clone() }),
        context: String::new(),
    }
}

fn lines_of(text: &str, lines: &LineNumbers, range: &Range<usize>) -> (u32, u32) {
    let piece = &text[range.clone()];
    if piece.trim().is_empty() {
        return (lines.line(range.start), lines.line(range.end.max(range.start + 1) - 1));
    }
    let first = range.start + (piece.len() - piece.trim_start().len());
    let last = range.start + piece.trim_end().len();
    (lines.line(first), lines.line(last - 1))
}

/// In prose the two topmost headings below the title, in code the innermost type and the function in it.
fn sections(path: &[&Scope]) -> (Option<String>, Option<String>) {
    let innermost_type = path.iter().rposition(|scope| scope.kind == ScopeKind::Type);
    let function =
        path.iter().skip(innermost_type.unwrap_or(0)).find(|scope| scope.kind == ScopeKind::Function);
    let headings = path.iter().filter(|scope| scope.kind == ScopeKind::Heading);
    let definitions = innermost_type.map(|position| &path[position]).into_iter().chain(function);
    let mut names = headings.chain(definitions).map(|scope| scope.name().to_owned());
    (names.next(), names.next())
}

fn chunk_kind(document: &ParsedDocument<'_>, path: &[&Scope], is_whole: bool) -> Option<ChunkKind> {
    if document.outline().kind == TextKind::Code {
        return None;
    }
    if path.is_empty() || !is_whole {
        return Some(ChunkKind::ParagraphGroup);
    }
    let headings = path.iter().filter(|scope| scope.kind == ScopeKind::Heading).count();
    Some(if headings > 1 { ChunkKind::Subsection } else { ChunkKind::Section })
}

fn context(document: &ParsedDocument<'_>, path: &[&Scope], start: usize) -> String {
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
    signatures.join(if document.outline().kind == TextKind::Code { "\n" } else { " > " })
}
