//! Byte-pair encoding of one piece: of all neighbours that are a token together, those of the lowest rank become one,
//! until there are none. It takes n log n steps for n bytes, whatever they are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many tokens are left.
pub(super) fn merged(piece: &[u8], rank: impl Fn(&[u8]) -> Option<u32>) -> usize {
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

/// The parts of a piece, each known by where it begins.
struct Parts {
    /// Where the part ends that begins here; nowhere once it was merged into the one before.
    end: Vec<usize>,
    /// Where the part begins that ends where this one begins.
    before: Vec<usize>,
}

/// No part ends there.
const MERGED: usize = 0;

impl Parts {
    fn bytes(length: usize) -> Self {
        Self { end: (1..=length).collect(), before: (0..length).map(|at| at.wrapping_sub(1)).collect() }
    }

    /// Whether the parts that were once found to be a token together are still two, and still there.
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

    /// The same, read off the definition.
    fn one_after_the_other(piece: &[u8]) -> usize {
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
        fn pairs_become_tokens_by_their_rank(piece in vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'c')], 0..80)) {
            prop_assert_eq!(merged(&piece, rank), one_after_the_other(&piece));
        }
    }
}
