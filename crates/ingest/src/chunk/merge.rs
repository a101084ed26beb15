//! Merges pieces that are too small to be found on their own with a neighbour, across the weakest boundaries
//! first, so that text stays with the section it belongs to.

use std::collections::BTreeSet;

use super::ChunkBudget;
use super::boundaries::Boundary;
use super::split::Piece;

/// Merges each piece below the minimum with a neighbour, if both fit the budget together.
pub(super) fn merge(text: &str, pieces: Vec<Piece>, budget: ChunkBudget) -> Vec<Piece> {
    let merger = Merger { text, budget };
    let boundaries: BTreeSet<Boundary> = pieces.iter().map(|piece| piece.boundary).collect();
    boundaries.into_iter().rev().fold(pieces, |pieces, boundary| merger.merge_over(boundary, pieces))
}

struct Merger<'a> {
    text: &'a str,
    budget: ChunkBudget,
}

enum Neighbour {
    Before,
    After,
}

impl Merger<'_> {
    fn merge_over(&self, boundary: Boundary, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut done: Vec<Piece> = Vec::with_capacity(pieces.len());
        let mut rest = pieces.into_iter().peekable();
        while let Some(mut piece) = rest.next() {
            while let Some(neighbour) = self.neighbour(boundary, done.last(), &piece, rest.peek()) {
                let (before, after) = match neighbour {
                    Neighbour::Before => (done.pop(), Some(piece)),
                    Neighbour::After => (Some(piece), rest.next()),
                };
                let (before, after) = before.zip(after).expect("a chosen neighbour exists");
                piece = self.merged(&before, &after);
            }
            done.push(piece);
        }
        done
    }

    /// The neighbour to merge a small piece with across this kind of boundary. The one after it is preferred,
    /// since imports and introductions belong to what follows.
    fn neighbour(
        &self,
        boundary: Boundary,
        before: Option<&Piece>,
        piece: &Piece,
        after: Option<&Piece>,
    ) -> Option<Neighbour> {
        if piece.tokens == 0 {
            // White space alone is no chunk, unless no neighbour has room for it.
            let before = before.filter(|before| self.have_room(before, piece)).map(|_| Neighbour::Before);
            return before
                .or_else(|| after.filter(|after| self.have_room(piece, after)).map(|_| Neighbour::After));
        }
        if piece.tokens >= self.budget.min_tokens {
            return None;
        }
        if after.is_some_and(|after| after.boundary == boundary && self.fit(piece, after)) {
            return Some(Neighbour::After);
        }
        let fits_before = before.is_some_and(|before| piece.boundary == boundary && self.fit(before, piece));
        fits_before.then_some(Neighbour::Before)
    }

    fn fit(&self, before: &Piece, after: &Piece) -> bool {
        self.have_room(before, after) && self.tokens_of_both(before, after) <= self.budget.max_tokens
    }

    fn have_room(&self, before: &Piece, after: &Piece) -> bool {
        after.range.end - before.range.start <= self.budget.max_bytes()
    }

    /// The larger piece determines the headings of both.
    fn merged(&self, before: &Piece, after: &Piece) -> Piece {
        let larger = if before.tokens >= after.tokens { before } else { after };
        Piece {
            range: before.range.start..after.range.end,
            tokens: self.tokens_of_both(before, after),
            boundary: before.boundary,
            ..larger.clone()
        }
    }

    /// Upper bound on the tokens of both. Neither count includes the white space between them.
    fn tokens_of_both(&self, before: &Piece, after: &Piece) -> usize {
        if before.tokens == 0 || after.tokens == 0 {
            return before.tokens + after.tokens;
        }
        let end = &self.text[before.range.clone()];
        let start = &self.text[after.range.clone()];
        let space_between = (end.len() - end.trim_end().len()) + (start.len() - start.trim_start().len());
        before.tokens + after.tokens + space_between
    }
}
