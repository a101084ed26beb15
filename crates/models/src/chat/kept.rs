//! What the model's sequences hold, whether somebody uses them or not, and which of it a new prompt can go on from.
//! Prompts begin alike (the instructions, a session's earlier turns), so what one has computed serves the next.

use super::llama::Token;

/// The tokens of one sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// What was computed, and what is to be.
    pub(super) tokens: Vec<Token>,
    /// So many of them were computed.
    pub(super) computed: usize,
    /// So many there may come to be, while it is in use.
    pub(super) in_use: Option<usize>,
    /// When it was used last: a larger number is later.
    pub(super) used: u64,
}

/// Where a new prompt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The sequence that it takes.
    pub(super) target: usize,
    /// The sequence that it goes on from, which may be the same.
    pub(super) from: usize,
    /// So many tokens it has from there.
    pub(super) shared: usize,
}

impl Kept {
    /// The tokens that are to be computed next.
    pub(super) fn pending(&self) -> &[Token] {
        &self.tokens[self.computed..]
    }

    /// Nobody uses it any more; what it has computed stays.
    pub(super) fn rest(&mut self) {
        self.tokens.truncate(self.computed);
        self.in_use = None;
    }

    /// It has nothing any more.
    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        self.computed = 0;
        self.in_use = None;
    }

    /// So many tokens of the context it holds, or may come to hold.
    fn holds(&self) -> usize {
        self.in_use.unwrap_or(self.computed)
    }

    /// So many of the first tokens are the same. The last one of a prompt has always to be computed: what follows
    /// it is the answer.
    fn shares(&self, prompt: &[Token]) -> usize {
        let computed = self.tokens[..self.computed].iter();
        computed.zip(&prompt[..prompt.len().saturating_sub(1)]).take_while(|(a, b)| a == b).count()
    }
}

/// Where a prompt goes; none if every sequence is in use.
pub(super) fn choose(kept: &[Kept], prompt: &[Token]) -> Option<Choice> {
    let shares = kept.iter().map(|kept| kept.shares(prompt)).enumerate();
    let (from, shared) = shares.rev().max_by_key(|(_, shared)| *shared)?;
    let source = &kept[from];
    // A conversation that goes on stays where it is. Where more would be lost than is shared, it is another one.
    if source.in_use.is_none() && shared > 0 && source.computed - shared <= shared {
        return Some(Choice { target: from, from, shared });
    }
    oldest(kept).map(|target| Choice { target, from, shared })
}

/// The sequence that nobody uses and that is missed least: an empty one, or the one used longest ago.
fn oldest(kept: &[Kept]) -> Option<usize> {
    let idle = kept.iter().enumerate().filter(|(_, kept)| kept.in_use.is_none());
    idle.min_by_key(|(_, kept)| (kept.computed > 0, kept.used)).map(|(number, _)| number)
}

/// A sequence to empty so that all of them hold no more than `room` tokens, if they do.
pub(super) fn surplus(kept: &[Kept], room: usize) -> Option<usize> {
    if kept.iter().map(Kept::holds).sum::<usize>() <= room {
        return None;
    }
    let idle = kept.iter().enumerate().filter(|(_, kept)| kept.in_use.is_none() && kept.computed > 0);
    idle.min_by_key(|(_, kept)| kept.used).map(|(number, _)| number)
}

/// How many tokens those in use may come to hold.
pub(super) fn reserved(kept: &[Kept]) -> usize {
    kept.iter().filter_map(|kept| kept.in_use).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(tokens: &[Token], used: u64) -> Kept {
        Kept { tokens: tokens.to_vec(), computed: tokens.len(), in_use: None, used }
    }

    fn in_use(tokens: &[Token], most: usize) -> Kept {
        Kept { in_use: Some(most), ..idle(tokens, 0) }
    }

    fn choice(target: usize, from: usize, shared: usize) -> Option<Choice> {
        Some(Choice { target, from, shared })
    }

    #[test]
    fn a_conversation_goes_on_in_its_own_sequence() {
        let kept = [idle(&[1, 2, 9, 9], 5), idle(&[1, 2, 3, 4, 5], 1), Kept::default()];
        assert_eq!(choose(&kept, &[1, 2, 3, 4, 6, 7]), choice(1, 1, 4));
    }

    #[test]
    fn another_conversation_takes_the_common_beginning_and_leaves_the_rest() {
        let kept = [idle(&[1, 2, 9, 9, 9], 5), Kept::default()];
        assert_eq!(choose(&kept, &[1, 2, 3, 4]), choice(1, 0, 2));
    }

    #[test]
    fn the_beginning_of_a_running_prompt_serves_too() {
        let kept = [in_use(&[1, 2, 9], 10), idle(&[8], 1)];
        assert_eq!(choose(&kept, &[1, 2, 3, 4]), choice(1, 0, 2));
    }

    #[test]
    fn what_is_not_computed_yet_serves_nobody() {
        let kept = [Kept { computed: 1, ..in_use(&[1, 2, 3], 10) }, Kept::default()];
        assert_eq!(choose(&kept, &[1, 2, 3, 4]), choice(1, 0, 1));
    }

    #[test]
    fn the_last_token_of_a_prompt_is_always_computed() {
        assert_eq!(choose(&[idle(&[1, 2, 3], 0)], &[1, 2, 3]), choice(0, 0, 2));
        assert_eq!(choose(&[idle(&[1, 2, 3], 0)], &[1]), choice(0, 0, 0));
    }

    #[test]
    fn the_sequence_that_was_used_longest_ago_goes_first() {
        let kept = [idle(&[7], 3), idle(&[8], 2), in_use(&[9], 5)];
        assert_eq!(choose(&kept, &[1, 2]), choice(1, 0, 0));
        assert_eq!(choose(&[in_use(&[9], 5)], &[1, 2]), None);
        assert_eq!(surplus(&kept, 7), None);
        assert_eq!(surplus(&kept, 6), Some(1));
        assert_eq!(reserved(&kept), 5);
    }
}
