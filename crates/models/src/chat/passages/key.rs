//! What a state is known by: all that it depends on. If anything of it changes, it is another state.

use std::fmt;

use ring::digest;

use crate::chat::llama::Token;
use crate::chat::prompt::Reading;

/// The hash of all that a state depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key([u8; digest::SHA256_OUTPUT_LEN]);

impl Key {
    /// What states of a model depend on whatever its tokens are, in words.
    pub(crate) fn of_model(parts: &[&str]) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in parts {
            // With its length in front, so that no two lists of parts look alike.
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        Self::finish(context)
    }

    /// The key of what these tokens are after all that this one stands for.
    pub(crate) fn followed_by(self, tokens: &[Token]) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.0);
        for token in tokens {
            context.update(&token.to_le_bytes());
        }
        Self::finish(context)
    }

    /// The key of what is read by itself after all that this one stands for.
    pub(super) fn of_reading(self, reading: Reading<'_>) -> Self {
        let behind = if reading.lead.is_empty() { self } else { self.followed_by(reading.lead) };
        behind.followed_by(reading.tokens)
    }

    /// The key that is written so.
    pub(super) fn from_digits(digits: &str) -> Option<Self> {
        let mut key = [0; digest::SHA256_OUTPUT_LEN];
        let pairs = digits.as_bytes().chunks_exact(2);
        if digits.len() != 2 * key.len() {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(pairs) {
            *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(key))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn finish(context: digest::Context) -> Self {
        let mut key = [0; digest::SHA256_OUTPUT_LEN];
        key.copy_from_slice(context.finish().as_ref());
        Self(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_changes_the_key_changes() {
        let model = Key::of_model(&["model", "f16"]);
        let keys = [
            model,
            Key::of_model(&["mode", "lf16"]),
            Key::of_model(&["model", "q8_0"]),
            model.followed_by(&[1, 2]),
            model.followed_by(&[1, 3]),
            model.followed_by(&[1]).followed_by(&[2]),
            model.followed_by(&[]),
        ];
        for (number, key) in keys.iter().enumerate() {
            assert!(!keys[number + 1..].contains(key), "{number}");
        }
        assert_eq!(model, Key::of_model(&["model", "f16"]));
        assert_eq!(Key::from_digits(&model.to_string()), Some(model));
        assert_eq!(Key::from_digits("a name"), None);
    }
}
