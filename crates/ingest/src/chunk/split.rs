//! Splits a document into pieces that fit the budget: first at its parts, then each part that is too large at
//! weaker and weaker boundaries. Tokens are counted at most twice per piece on average; where to split a
//! large span is estimated from its bytes.

use std::iter;
use std::ops::Range;

use super::boundaries::{self, Boundary};
use super::{ChunkBudget, CountTokens, MAX_BYTES_PER_TOKEN};
use crate::ParsedDocument;
use crate::parse::Outline;

/// Estimated bytes of a token, for spans that are too large to count.
const BYTES_PER_TOKEN: usize = 3;

/// A range that becomes a chunk, unless it is merged with another.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    pub(super) tokens: usize,
    /// The boundary between it and the previous piece.
    pub(super) boundary: Boundary,
    /// The index of its innermost scope.
    pub(super) scope: Option<usize>,
    /// Whether it is a complete part.
    pub(super) is_whole: bool,
}

/// The pieces of a document, in order.
pub(super) fn split(
    document: &ParsedDocument<'_>,
    budget: ChunkBudget,
    count: &CountTokens<'_>,
) -> Vec<Piece> {
    let splitter = Splitter {
        text: document.text(),
        outline: document.outline(),
        order: boundaries::strongest_first(document.outline().kind),
        max_tokens: budget.max_tokens.max(1),
        max_bytes: budget.max_bytes(),
        count,
    };
    let mut pieces = Vec::new();
    let mut pending = splitter.parts();
    pending.reverse();
    while let Some(span) = pending.pop() {
        if span.tokens <= splitter.max_tokens || span.is_indivisible {
            pieces.extend(splitter.pieces(&span));
        } else {
            pending.extend(splitter.divide(&span).into_iter().rev());
        }
    }
    pieces
}

struct Splitter<'a> {
    text: &'a str,
    outline: &'a Outline,
    order: &'static [Boundary],
    max_tokens: usize,
    max_bytes: usize,
    count: &'a CountTokens<'a>,
}

/// A range of the document that may exceed the budget.
struct Span {
    range: Range<usize>,
    tokens: usize,
    boundary: Boundary,
    is_whole: bool,
    /// The index in the order of boundaries of the first that may split it.
    next_boundary: usize,
    is_indivisible: bool,
}

impl Splitter<'_> {
    /// The document, split at the parts that always become separate chunks.
    fn parts(&self) -> Vec<Span> {
        let deepest_separate_level = self.outline.deepest_separate_level();
        let mut spans = Vec::new();
        let mut start = 0;
        let mut boundary = Boundary::Part(0);
        for part in self.outline.parts.iter().filter(|part| part.level <= deepest_separate_level) {
            if part.start > start {
                spans.push(self.measure(start..part.start, boundary, true, 0));
            }
            start = part.start;
            boundary = Boundary::Part(part.level);
        }
        if start < self.text.len() {
            spans.push(self.measure(start..self.text.len(), boundary, true, 0));
        }
        spans
    }

    /// Splits a span at the strongest boundary that it contains.
    fn divide(&self, span: &Span) -> Vec<Span> {
        for (rank, &boundary) in self.order.iter().enumerate().skip(span.next_boundary) {
            let divided = match boundary {
                Boundary::Part(_) => self.split_at_all(span, boundary, rank),
                _ => self.split_evenly(span, boundary, rank),
            };
            if divided.len() > 1 {
                return divided;
            }
        }
        let indivisible = Span { range: span.range.clone(), is_indivisible: true, ..*span };
        vec![indivisible]
    }

    /// Splits at every boundary of this kind.
    fn split_at_all(&self, span: &Span, boundary: Boundary, rank: usize) -> Vec<Span> {
        let mut start = span.range.start;
        let ends = boundaries::positions(self.outline, self.text, span.range.clone(), boundary, 0);
        ends.chain([span.range.end])
            .map(|end| {
                let before = if start == span.range.start { span.boundary } else { boundary };
                let part = self.measure(start..end, before, false, rank + 1);
                start = end;
                part
            })
            .collect()
    }

    /// Splits at as few boundaries of this kind as the budget allows, into groups of about equal size.
    fn split_evenly(&self, span: &Span, boundary: Boundary, rank: usize) -> Vec<Span> {
        let bytes = span.range.len();
        let groups = span.tokens.div_ceil(self.max_tokens);
        let max_bytes = bytes.saturating_mul(self.max_tokens) / span.tokens;
        let even = bytes / groups;
        let ends = boundaries::positions(self.outline, self.text, span.range.clone(), boundary, 4 * groups);

        let mut packed = Vec::new();
        let mut group = Group { start: span.range.start, end: span.range.start, members: 0 };
        for end in ends.chain([span.range.end]) {
            let longer = end - group.start;
            let half_of_added = (end - group.end) / 2;
            if group.members > 0 && (longer > max_bytes || longer - half_of_added > even) {
                packed.push(group);
                group = Group { start: group.end, end: group.end, members: 0 };
            }
            group.end = end;
            group.members += 1;
        }
        packed.push(group);
        if let [only] = packed.as_slice()
            && only.members == 1
        {
            return Vec::new();
        }
        let weakest = self.order.len() - 1;
        packed
            .into_iter()
            .map(|group| {
                let before = if group.start == span.range.start { span.boundary } else { boundary };
                let next_boundary = if group.members == 1 { (rank + 1).min(weakest) } else { rank };
                self.measure(group.start..group.end, before, false, next_boundary)
            })
            .collect()
    }

    fn measure(&self, range: Range<usize>, boundary: Boundary, is_whole: bool, next_boundary: usize) -> Span {
        let text = self.text[range.clone()].trim();
        let tokens = if text.is_empty() {
            0
        } else if text.len() > self.max_tokens.saturating_mul(MAX_BYTES_PER_TOKEN) {
            text.len() / BYTES_PER_TOKEN
        } else {
            (self.count)(text)
        };
        Span { range, tokens, boundary, is_whole, next_boundary, is_indivisible: false }
    }

    /// The pieces of a span that fits the budget. If it has too many bytes, the excess is white space around
    /// its text, which becomes pieces of its own.
    fn pieces(&self, span: &Span) -> Vec<Piece> {
        let &Span { ref range, tokens, boundary, is_whole, .. } = span;
        let piece = |range: Range<usize>, tokens, is_whole| {
            let scope = self.outline.scope_at(range.start);
            Piece { range, tokens, boundary, scope, is_whole }
        };
        if range.len() <= self.max_bytes {
            return vec![piece(range.clone(), tokens, is_whole)];
        }
        let text = &self.text[range.clone()];
        let start = range.end - text.trim_start().len();
        let end = start + text.trim().len();
        let space = |range| self.steps(range).map(|step| piece(step, 0, false));
        let text = (start < end).then(|| piece(start..end, tokens, is_whole));
        space(range.start..start).chain(text).chain(space(end..range.end)).collect()
    }

    /// Splits a range into as few steps as the maximum bytes allow.
    fn steps(&self, mut range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        iter::from_fn(move || {
            let end = range.end.min(range.start.saturating_add(self.max_bytes));
            let step = range.start..self.text.floor_char_boundary(end);
            range.start = step.end;
            (!step.is_empty()).then_some(step)
        })
    }
}

/// Adjacent ranges that are measured together.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    end: usize,
    members: usize,
}
