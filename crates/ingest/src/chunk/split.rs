//! Splits a document into pieces that fit the budget: at its parts, and what is too large then at weaker and
//! weaker seams. A piece is counted once or twice; how to divide a large one is reckoned from its bytes.

use std::iter;
use std::ops::Range;

use super::seams::{self, Seam};
use super::{Budget, CountTokens, MOST_BYTES_A_TOKEN};
use crate::Parsed;
use crate::outline::Outline;

/// What a token has on average, for texts that are not counted.
const BYTES_A_TOKEN: usize = 3;

/// What will be a chunk, unless it is joined with another.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    pub(super) tokens: usize,
    /// What separates it from the piece before.
    pub(super) seam: Seam,
    /// The scope it is in.
    pub(super) scope: Option<usize>,
    /// Whether it is a part that was not split.
    pub(super) whole: bool,
}

/// The pieces of a document, in order.
pub(super) fn split(document: &Parsed<'_>, budget: Budget, count: &CountTokens<'_>) -> Vec<Piece> {
    let splitter = Splitter {
        text: document.text(),
        outline: document.outline(),
        ladder: seams::ladder(document.outline().manner),
        most: budget.most.max(1),
        most_bytes: budget.most_bytes(),
        count,
    };
    let mut pieces = Vec::new();
    let mut waiting = splitter.parts();
    waiting.reverse();
    while let Some(stretch) = waiting.pop() {
        if stretch.tokens <= splitter.most || stretch.is_indivisible {
            pieces.extend(splitter.pieces(&stretch));
        } else {
            waiting.extend(splitter.divide(&stretch).into_iter().rev());
        }
    }
    pieces
}

struct Splitter<'a> {
    text: &'a str,
    outline: &'a Outline,
    ladder: &'static [Seam],
    most: usize,
    most_bytes: usize,
    count: &'a CountTokens<'a>,
}

/// A stretch of the document that may be too large.
struct Stretch {
    range: Range<usize>,
    tokens: usize,
    seam: Seam,
    whole: bool,
    /// The first rung of the ladder that may divide it.
    rung: usize,
    is_indivisible: bool,
}

impl Splitter<'_> {
    /// The whole document, cut at the parts that are always apart.
    fn parts(&self) -> Vec<Stretch> {
        let always_apart = self.outline.always_apart();
        let mut stretches = Vec::new();
        let mut start = 0;
        let mut seam = Seam::Part(0);
        for part in self.outline.parts.iter().filter(|part| part.level <= always_apart) {
            if part.start > start {
                stretches.push(self.weigh(start..part.start, seam, true, 0));
            }
            start = part.start;
            seam = Seam::Part(part.level);
        }
        if start < self.text.len() {
            stretches.push(self.weigh(start..self.text.len(), seam, true, 0));
        }
        stretches
    }

    /// Divides a stretch at the first rung that has a seam in it.
    fn divide(&self, stretch: &Stretch) -> Vec<Stretch> {
        for (rung, &seam) in self.ladder.iter().enumerate().skip(stretch.rung) {
            let divided = match seam {
                Seam::Part(_) => self.cut(stretch, seam, rung),
                _ => self.pack(stretch, seam, rung),
            };
            if divided.len() > 1 {
                return divided;
            }
        }
        let indivisible = Stretch { range: stretch.range.clone(), is_indivisible: true, ..*stretch };
        vec![indivisible]
    }

    /// Cuts at every seam.
    fn cut(&self, stretch: &Stretch, seam: Seam, rung: usize) -> Vec<Stretch> {
        let mut start = stretch.range.start;
        let ends = seams::inside(self.outline, self.text, stretch.range.clone(), seam, 0);
        ends.chain([stretch.range.end])
            .map(|end| {
                let before = if start == stretch.range.start { stretch.seam } else { seam };
                let cut = self.weigh(start..end, before, false, rung + 1);
                start = end;
                cut
            })
            .collect()
    }

    /// Cuts at as few seams as the budget allows, into groups of about the same size.
    fn pack(&self, stretch: &Stretch, seam: Seam, rung: usize) -> Vec<Stretch> {
        let bytes = stretch.range.len();
        let groups = stretch.tokens.div_ceil(self.most);
        let most_bytes = bytes.saturating_mul(self.most) / stretch.tokens;
        let even = bytes / groups;
        let ends = seams::inside(self.outline, self.text, stretch.range.clone(), seam, 4 * groups);

        let mut packed = Vec::new();
        let mut group = Group { start: stretch.range.start, end: stretch.range.start, members: 0 };
        for end in ends.chain([stretch.range.end]) {
            let longer = end - group.start;
            let half_of_added = (end - group.end) / 2;
            if group.members > 0 && (longer > most_bytes || longer - half_of_added > even) {
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
        let weakest = self.ladder.len() - 1;
        packed
            .into_iter()
            .map(|group| {
                let before = if group.start == stretch.range.start { stretch.seam } else { seam };
                let next_rung = if group.members == 1 { (rung + 1).min(weakest) } else { rung };
                self.weigh(group.start..group.end, before, false, next_rung)
            })
            .collect()
    }

    fn weigh(&self, range: Range<usize>, seam: Seam, whole: bool, rung: usize) -> Stretch {
        let text = self.text[range.clone()].trim();
        let tokens = if text.is_empty() {
            0
        } else if text.len() > self.most.saturating_mul(MOST_BYTES_A_TOKEN) {
            text.len() / BYTES_A_TOKEN
        } else {
            (self.count)(text)
        };
        Stretch { range, tokens, seam, whole, rung, is_indivisible: false }
    }

    /// A stretch that fits the budget is a piece. If it has too many bytes, they are white space around its text,
    /// which is cut off.
    fn pieces(&self, stretch: &Stretch) -> Vec<Piece> {
        let &Stretch { ref range, tokens, seam, whole, .. } = stretch;
        let piece = |range: Range<usize>, tokens, whole| {
            let scope = self.outline.scope_at(range.start);
            Piece { range, tokens, seam, scope, whole }
        };
        if range.len() <= self.most_bytes {
            return vec![piece(range.clone(), tokens, whole)];
        }
        let text = &self.text[range.clone()];
        let start = range.end - text.trim_start().len();
        let end = start + text.trim().len();
        let space = |range| self.steps(range).map(|step| piece(step, 0, false));
        let text = (start < end).then(|| piece(start..end, tokens, whole));
        space(range.start..start).chain(text).chain(space(end..range.end)).collect()
    }

    /// A range in as few steps as have not too many bytes.
    fn steps(&self, mut range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        iter::from_fn(move || {
            let end = range.end.min(range.start.saturating_add(self.most_bytes));
            let step = range.start..self.text.floor_char_boundary(end);
            range.start = step.end;
            (!step.is_empty()).then_some(step)
        })
    }
}

/// Neighbours that will be weighed together.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    end: usize,
    members: usize,
}
