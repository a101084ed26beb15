//! Byte-pair encoding of one piece: repeatedly merges the adjacent pair with the lowest rank until no pair is a token.
//! Takes O(n log n) steps for n bytes, whatever they are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The number of tokens of a piece.
pub(super) fn count_merged(piece: &[u8], rank: impl Fn(&[u8]) -> Option<u32>) -> usize {
    let mut parts = Parts::bytes(piece.len());
    let mut pairs = BinaryHeap::new();
    let find = |pairs: &mut BinaryHeap<_>, left: usize, end: usize| {
        if let Some(rank) = rank(&piece[left..end]) {
            pairs.push(Reverse((rank, left, end)));
        }
    };
    for left in 0..piece.len().saturating_sub(1) {
        find(&mut pairs, left, left + 2);
    }
    let mut count = piece.len();
    while let Some(Reverse((_, left, end))) = pairs.pop() {
        if !parts.are_pair(left, end) {
            continue;
        }
        parts.merge(left);
        count -= 1;
        if let Some(before) = parts.before(left) {
            find(&mut pairs, before, end);
        }
        if let Some(after) = parts.after(left) {
            find(&mut pairs, left, parts.end[after]);
        }
    }
    count
}

/// The parts of a piece as a linked list, each identified by its start.
struct Parts {
    /// The end of the part that starts here, or [`MERGED`].
    end: Vec<usize>,
    /// The start of the previous part.
    before: Vec<usize>,
}

/// The end of a part that was merged into the previous one.
const MERGED: usize = 0;

impl Parts {
    fn bytes(length: usize) -> Self {
        Self { end: (1..=length).collect(), before: (0..length).map(|at| at.wrapping_sub(1)).collect() }
    }

    /// Whether a queued pair is still two adjacent parts, from `left` to `end`.
    fn are_pair(&self, left: usize, end: usize) -> bool {
        self.after(left).is_some_and(|right| self.end[left] != MERGED && self.end[right] == end)
    }

    fn merge(&mut self, left: usize) {
        let right = self.end[left];
        self.end[left] = self.end[right];
        self.end[right] = MERGED;
        if let Some(after) = self.after(left) {
            self.before[after] = left;
        }
    }

    fn before(&self, at: usize) -> Option<usize> {
        (at > 0).then(|| self.before[at])
    }

    fn after(&self, at: usize) -> Option<usize> {
        Some(self.end[at]).filter(|&end| end < self.end.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A vocabulary in which runs of `a` up to eight are tokens, and a few others.
    fn rank(part: &[u8]) -> Option<u32> {
        const TOKENS: [&[u8]; 11] =
            [b"aa", b"ab", b"ba", b"aaaa", b"aba", b"bb", b"abab", b"aaaaaaaa", b"bba", b"ca", b"abc"];
        TOKENS.iter().position(|token| *token == part).and_then(|rank| u32::try_from(rank).ok())
    }

    /// The same by the definition, in quadratic time.
    fn count_merged_slowly(piece: &[u8]) -> usize {
        let mut parts: Vec<Vec<u8>> = piece.iter().map(|&byte| vec![byte]).collect();
        loop {
            let ranks = parts.windows(2).map(|pair| rank(&pair.concat()));
            let lowest = ranks.enumerate().filter_map(|(at, rank)| Some((rank?, at))).min();
            let Some((_, at)) = lowest else { return parts.len() };
            let right = parts.remove(at + 1);
            parts[at].extend(right);
        }
    }

    proptest! {
        #[test]
        fn pairs_merge_in_the_order_of_their_ranks(piece in vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'c')], 0..80)) {
            prop_assert_eq!(count_merged(&piece, rank), count_merged_slowly(&piece));
        }
    }
}
