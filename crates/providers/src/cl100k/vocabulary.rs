//! The vocabulary of OpenAI's tiktoken, under the licence beside it. `fixtures/tokens/make.py` writes `vocabulary.bin`:
//! the tokens in the order of their ranks, each after one byte with its length.

use std::collections::HashMap;
use std::sync::LazyLock;

static BYTES: &[u8] = include_bytes!("vocabulary.bin");

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::read(BYTES));

/// The tokens and their ranks. The pair with the lower rank is merged first.
pub(super) struct Vocabulary {
    ranks: HashMap<&'static [u8], u32>,
}

impl Vocabulary {
    pub(super) fn get() -> &'static Self {
        &VOCABULARY
    }

    pub(super) fn rank(&self, bytes: &[u8]) -> Option<u32> {
        self.ranks.get(bytes).copied()
    }

    fn read(mut bytes: &'static [u8]) -> Self {
        let tokens = std::iter::from_fn(|| {
            let (&length, rest) = bytes.split_first()?;
            let (token, rest) = rest.split_at(usize::from(length));
            bytes = rest;
            Some(token)
        });
        Self { ranks: tokens.zip(0..).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_has_every_byte_and_no_duplicates() {
        let vocabulary = Vocabulary::get();
        assert_eq!(vocabulary.ranks.len(), 100_256);
        assert!((0..=255).all(|byte| vocabulary.rank(&[byte]).is_some_and(|rank| rank < 256)));
        assert_eq!(vocabulary.rank(b"hello"), Some(15_339));
        assert_eq!(vocabulary.rank(b"<|endoftext|>"), None);
    }
}
