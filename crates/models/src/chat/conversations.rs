//! Conversations that nobody waits for: their tokens, and what the model kept of them, in plain memory. In the model's
//! own state they would be looked at with every token of everybody else. The ones used last stay, within a number of
//! bytes.

use super::llama::Token;
use super::prompt::{Piece, Prompt};

/// So many tokens are worth not to be read again.
const WORTH_KEEPING: usize = 16;

/// What may go on.
pub(super) struct Conversations {
    most_bytes: usize,
    /// The one that was used last is the last.
    resting: Vec<Resting>,
}

/// A conversation, up to where it was computed.
pub(super) struct Resting {
    pub(super) tokens: Vec<Token>,
    /// The passages among them that were read behind their leads.
    pub(super) gathered: Vec<Piece>,
    /// In llama.cpp's own form.
    pub(super) state: Vec<u8>,
}

impl Conversations {
    /// At most so many bytes.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, resting: Vec::new() }
    }

    /// How many of a prompt's first tokens the best of them has.
    pub(super) fn shared(&self, prompt: &Prompt) -> usize {
        self.resting.iter().map(|resting| resting.shared(prompt)).max().unwrap_or(0)
    }

    /// The one that has most of a prompt's first tokens. It stays if it has a good deal more: then it is another
    /// conversation that only begins alike.
    pub(super) fn take(&mut self, prompt: &Prompt, restore: impl FnOnce(&Resting)) {
        let best = (0..self.resting.len()).max_by_key(|&number| self.resting[number].shared(prompt));
        let Some(best) = best else { return };
        let resting = self.resting.remove(best);
        restore(&resting);
        let shared = resting.shared(prompt);
        let more = resting.tokens.len() - shared;
        if more > shared || more > WORTH_KEEPING {
            self.resting.push(resting);
        }
    }

    /// Whether a state of so many bytes may be kept at all.
    pub(super) fn may_have(&self, bytes: usize) -> bool {
        bytes <= self.most_bytes
    }

    /// Takes one in; those that it goes on from, and those used longest ago, make room.
    pub(super) fn put(&mut self, conversation: Resting) {
        self.resting.retain(|other| !conversation.tokens.starts_with(&other.tokens));
        let is_known = self.resting.iter().any(|other| other.tokens.starts_with(&conversation.tokens));
        if is_known || conversation.bytes() > self.most_bytes {
            return;
        }
        self.resting.push(conversation);
        while self.bytes() > self.most_bytes {
            self.resting.remove(0);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.resting.iter().map(Resting::bytes).sum()
    }
}

impl Resting {
    /// How many of a prompt's first tokens it has.
    pub(super) fn shared(&self, prompt: &Prompt) -> usize {
        shared(&self.tokens, &self.gathered, prompt)
    }

    fn bytes(&self) -> usize {
        let leads: usize = self.gathered.iter().map(|piece| size_of_val(piece.lead.as_slice())).sum();
        self.state.len() + size_of_val(self.tokens.as_slice()) + leads + size_of::<Self>()
    }
}

/// So many of the first tokens are the same. The last one of a prompt has always to be computed: what follows it is the
/// answer. A passage that was read behind its lead serves only as a whole, and where it would be read behind the same.
pub(super) fn shared(computed: &[Token], gathered: &[Piece], prompt: &Prompt) -> usize {
    let tokens = &prompt.tokens[..prompt.tokens.len().saturating_sub(1)];
    let same = computed.iter().zip(tokens).take_while(|(a, b)| a == b).count();
    let other = gathered.iter().find(|piece| piece.place.end > same || !prompt.pieces.contains(piece));
    other.map_or(same, |other| same.min(other.place.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resting(tokens: &[Token]) -> Resting {
        Resting { tokens: tokens.to_vec(), gathered: Vec::new(), state: vec![0; 1_000] }
    }

    fn prompt(tokens: &[Token]) -> Prompt {
        Prompt { tokens: tokens.to_vec(), pieces: Vec::new(), answer_tokens: 1 }
    }

    fn conversations(most: usize, tokens: &[&[Token]]) -> Conversations {
        let mut conversations = Conversations::new(most * 1_100);
        tokens.iter().for_each(|tokens| conversations.put(resting(tokens)));
        conversations
    }

    fn taken(conversations: &mut Conversations, tokens: &[Token]) -> Option<Vec<Token>> {
        let mut taken = None;
        conversations.take(&prompt(tokens), |resting| taken = Some(resting.tokens.clone()));
        taken
    }

    fn all(conversations: &Conversations) -> Vec<&[Token]> {
        conversations.resting.iter().map(|resting| resting.tokens.as_slice()).collect()
    }

    #[test]
    fn a_conversation_that_goes_on_leaves_and_one_that_begins_alike_stays() {
        let mut conversations = conversations(4, &[&[1, 2, 9, 9], &[1, 2, 3, 4, 5], &[7]]);
        assert_eq!(conversations.shared(&prompt(&[1, 2, 3, 4, 6, 7])), 4);
        assert_eq!(taken(&mut conversations, &[1, 2, 3, 4, 6, 7]), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(all(&conversations), [&[1, 2, 9, 9][..], &[7]]);
        assert_eq!(taken(&mut conversations, &[1, 8]), Some(vec![1, 2, 9, 9]));
        assert_eq!(all(&conversations), [&[7][..], &[1, 2, 9, 9]], "it was used last");
    }

    #[test]
    fn what_a_conversation_goes_on_from_is_in_it_and_not_kept_twice() {
        let mut conversations = conversations(4, &[&[1, 2], &[1, 2, 3]]);
        conversations.put(resting(&[1, 2]));
        assert_eq!(all(&conversations), [&[1, 2, 3]]);
    }

    #[test]
    fn they_stay_within_their_bytes_and_those_used_longest_ago_go_first() {
        let mut conversations = conversations(2, &[&[1], &[2]]);
        taken(&mut conversations, &[1, 2, 3]);
        conversations.put(resting(&[1, 2]));
        conversations.put(resting(&[3]));
        assert_eq!(all(&conversations), [&[1, 2][..], &[3]]);
        conversations.put(Resting { state: vec![0; 9_000], ..resting(&[4]) });
        assert_eq!(all(&conversations).len(), 2);
        assert!(conversations.bytes() <= 2_200);
        for number in 10..1_000 {
            conversations.put(resting(&[number]));
            assert!(conversations.bytes() <= 2_200);
        }
    }

    #[test]
    fn the_last_token_of_a_prompt_is_always_computed() {
        let shared = |tokens: &[Token]| resting(&[1, 2, 3]).shared(&prompt(tokens));
        assert_eq!((shared(&[1, 2, 3]), shared(&[1]), shared(&[])), (2, 0, 0));
        assert_eq!(conversations(4, &[]).shared(&prompt(&[1])), 0);
    }

    #[test]
    fn a_passage_that_was_read_behind_its_lead_serves_only_behind_the_same() {
        let piece = |place, lead: &[Token]| Piece { place, lead: lead.to_vec() };
        let with = |second: &[Token], third: &[Token]| Prompt {
            pieces: vec![piece(1..3, &[]), piece(3..5, second), piece(5..7, third)],
            ..prompt(&[1, 2, 3, 4, 5, 6, 7, 8, 9])
        };
        let followers = |prompt: &Prompt| prompt.pieces[1..].to_vec();
        let gathered =
            Resting { gathered: followers(&with(&[10], &[11])), ..resting(&[1, 2, 3, 4, 5, 6, 7, 8]) };
        assert_eq!(gathered.shared(&with(&[10], &[11])), 8);
        assert_eq!(gathered.shared(&with(&[10], &[12])), 5);
        assert_eq!(gathered.shared(&with(&[12], &[11])), 3, "the first passage is behind none");
        let begins_alike = Prompt { tokens: vec![1, 2, 3, 4, 5, 6, 9, 8, 9], ..with(&[10], &[11]) };
        assert_eq!(gathered.shared(&begins_alike), 5, "another passage has the same lead");
        let whole = resting(&[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(whole.shared(&with(&[12], &[12])), 8, "it was read behind all that stands before it");
    }
}
