//! What the sequences hold that answers are written in, and how much of it a new prompt has in common with it.

use super::conversations::shared;
use super::llama::Token;

/// The tokens of one sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// What was computed, and what is to be.
    pub(super) tokens: Vec<Token>,
    /// So many of them were computed.
    pub(super) computed: usize,
    /// So many there may come to be.
    pub(super) most: usize,
}

impl Kept {
    /// The tokens that are to be computed next.
    pub(super) fn pending(&self) -> &[Token] {
        &self.tokens[self.computed..]
    }
}

/// The sequence that has most of a prompt's first tokens, and how many.
pub(super) fn alike(kept: &[Kept], prompt: &[Token]) -> (usize, usize) {
    let shares = kept.iter().map(|kept| shared(&kept.tokens[..kept.computed], prompt)).enumerate();
    shares.rev().max_by_key(|(_, shared)| *shared).unwrap_or((0, 0))
}

/// How many tokens they may come to hold.
pub(super) fn reserved(kept: &[Kept]) -> usize {
    kept.iter().map(|kept| kept.most).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_running_prompt_serves_as_far_as_it_was_computed() {
        let running = Kept { tokens: vec![1, 2, 9], computed: 3, most: 10 };
        let begun = Kept { tokens: vec![1, 2, 3, 4], computed: 1, most: 20 };
        let kept = [Kept::default(), begun, running];
        assert_eq!(alike(&kept, &[1, 2, 3, 4, 5]), (2, 2));
        assert_eq!(alike(&kept, &[7]), (0, 0));
        assert_eq!(alike(&[], &[7]), (0, 0));
        assert_eq!((reserved(&kept), kept[1].pending()), (30, &[2, 3, 4][..]));
    }
}
