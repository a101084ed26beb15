//! What the sequences hold that answers are written in, and how much of it a new prompt has in common with it.

use std::collections::VecDeque;

use super::conversations::shared;
use super::llama::Token;
use super::passages::KeptPart;
use super::prompt::{Piece, Prompt};

/// The tokens of one sequence.
#[derive(Clone, Default)]
pub(super) struct Kept {
    /// What was computed, and what is to be.
    pub(super) tokens: Vec<Token>,
    /// The passages among them that were read behind their leads.
    pub(super) gathered: Vec<Piece>,
    /// So many tokens were computed.
    pub(super) computed: usize,
    /// What is kept of the rest, and becomes part of it once all before that is computed.
    pub(super) further: VecDeque<KeptPart>,
    /// So many there may come to be.
    pub(super) most: usize,
}

impl Kept {
    /// The tokens that are to be computed next.
    pub(super) fn pending(&self) -> &[Token] {
        let end = self.further.front().map_or(self.tokens.len(), |part| part.place.start);
        &self.tokens[self.computed..end]
    }

    /// Whether so many of them are all that there are.
    pub(super) fn ends_with(&self, pending: usize) -> bool {
        self.computed + pending == self.tokens.len()
    }

    /// Takes out what is kept of the tokens that come next.
    pub(super) fn take_next(&mut self) -> Vec<KeptPart> {
        let (mut next, mut end) = (Vec::new(), self.computed);
        while let Some(part) = self.further.pop_front_if(|part| part.place.start == end) {
            end = part.place.end;
            next.push(part);
        }
        next
    }
}

/// The sequence that has most of a prompt's first tokens, and how many.
pub(super) fn alike(kept: &[Kept], prompt: &Prompt) -> (usize, usize) {
    let share = |kept: &Kept| shared(&kept.tokens[..kept.computed], &kept.gathered, prompt);
    let shares = kept.iter().map(share).enumerate();
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
        let running = Kept { tokens: vec![1, 2, 9], computed: 3, most: 10, ..Kept::default() };
        let begun = Kept { tokens: vec![1, 2, 3, 4], computed: 1, most: 20, ..Kept::default() };
        let kept = [Kept::default(), begun, running];
        let prompt =
            |tokens: &[Token]| Prompt { tokens: tokens.to_vec(), pieces: Vec::new(), answer_tokens: 1 };
        assert_eq!(alike(&kept, &prompt(&[1, 2, 3, 4, 5])), (2, 2));
        assert_eq!(alike(&kept, &prompt(&[7])), (0, 0));
        assert_eq!(alike(&[], &prompt(&[7])), (0, 0));
        assert_eq!((reserved(&kept), kept[1].pending()), (30, &[2, 3, 4][..]));
    }

    #[test]
    fn what_is_kept_further_on_comes_in_where_all_before_it_is_computed() {
        let further = [0..2, 2..3, 4..6].map(KeptPart::blank).into();
        let mut kept = Kept { tokens: vec![10, 11, 12, 13, 14, 15, 16], further, ..Kept::default() };
        let places = |parts: Vec<KeptPart>| parts.into_iter().map(|part| part.place).collect::<Vec<_>>();
        assert!(kept.pending().is_empty());
        assert_eq!(places(kept.take_next()), [0..2, 2..3]);
        kept.computed = 3;
        assert_eq!((kept.pending(), kept.ends_with(1)), (&[13][..], false));
        assert!(kept.take_next().is_empty(), "a token is missing before it");
        kept.computed = 4;
        assert_eq!(places(kept.take_next()), vec![4..6]);
        kept.computed = 6;
        assert_eq!((kept.pending(), kept.ends_with(1)), (&[16][..], true));
    }
}
