//! The tokens and their ranks, as `fixtures/tokens/make.py` wrote them: by rank, each after its length. They are those
//! of OpenAI's tiktoken, under the licence beside them.

use std::collections::HashMap;
use std::sync::LazyLock;

static BYTES: &[u8] = include_bytes!("vocabulary.bin");

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::read(BYTES));

/// Which bytes are a token. Of two pairs that could become one, that of the lower rank does.
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
    fn every_byte_is_a_token_and_no_token_is_there_twice() {
        let vocabulary = Vocabulary::get();
        assert_eq!(vocabulary.ranks.len(), 100_256);
        assert!((0..=255).all(|byte| vocabulary.rank(&[byte]).is_some_and(|rank| rank < 256)));
        assert_eq!(vocabulary.rank(b"hello"), Some(15_339));
        assert_eq!(vocabulary.rank(b"<|endoftext|>"), None);
    }
}
