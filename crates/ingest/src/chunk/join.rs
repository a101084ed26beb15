//! Joins pieces that are too small to be found for what they say with their neighbours: over the weakest seams
//! first, so that they stay with what they belong to.

use std::collections::BTreeSet;

use super::Budget;
use super::seams::Seam;
use super::split::Piece;

/// The pieces, the small ones joined with others where both fit the budget together.
pub(super) fn join(text: &str, pieces: Vec<Piece>, budget: Budget) -> Vec<Piece> {
    let joiner = Joiner { text, budget };
    let seams: BTreeSet<Seam> = pieces.iter().map(|piece| piece.seam).collect();
    seams.into_iter().rev().fold(pieces, |pieces, seam| joiner.join_over(seam, pieces))
}

struct Joiner<'a> {
    text: &'a str,
    budget: Budget,
}

enum Way {
    Back,
    Forward,
}

impl Joiner<'_> {
    fn join_over(&self, seam: Seam, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut done: Vec<Piece> = Vec::with_capacity(pieces.len());
        let mut coming = pieces.into_iter().peekable();
        while let Some(mut piece) = coming.next() {
            while let Some(way) = self.way(seam, done.last(), &piece, coming.peek()) {
                let (before, after) = match way {
                    Way::Back => (done.pop(), Some(piece)),
                    Way::Forward => (Some(piece), coming.next()),
                };
                let (before, after) = before.zip(after).expect("a way leads to a neighbour that is there");
                piece = self.joined(&before, &after);
            }
            done.push(piece);
        }
        done
    }

    /// Where a small piece goes, if it goes over this seam. Imports and introductions belong to what follows.
    fn way(&self, seam: Seam, before: Option<&Piece>, piece: &Piece, after: Option<&Piece>) -> Option<Way> {
        if piece.tokens == 0 {
            // White space has no tokens, and alone it is no chunk if a neighbour has room for it.
            let back = before.filter(|before| self.have_room(before, piece)).map(|_| Way::Back);
            return back.or_else(|| after.filter(|after| self.have_room(piece, after)).map(|_| Way::Forward));
        }
        if piece.tokens >= self.budget.least {
            return None;
        }
        if after.is_some_and(|after| after.seam == seam && self.fit(piece, after)) {
            return Some(Way::Forward);
        }
        let fits_back = before.is_some_and(|before| piece.seam == seam && self.fit(before, piece));
        fits_back.then_some(Way::Back)
    }

    fn fit(&self, before: &Piece, after: &Piece) -> bool {
        self.have_room(before, after) && self.tokens_of_both(before, after) <= self.budget.most
    }

    fn have_room(&self, before: &Piece, after: &Piece) -> bool {
        after.range.end - before.range.start <= self.budget.most_bytes()
    }

    /// The names of the larger one are the names of both.
    fn joined(&self, before: &Piece, after: &Piece) -> Piece {
        let larger = if before.tokens >= after.tokens { before } else { after };
        Piece {
            range: before.range.start..after.range.end,
            tokens: self.tokens_of_both(before, after),
            seam: before.seam,
            ..larger.clone()
        }
    }

    /// No fewer than both have together. White space between them was in neither's count.
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
