//! Cache keys: a hash of everything that a KV state depends on.

use std::fmt;

use ring::digest;

use crate::chat::llama::Token;

/// The key of a KV state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey([u8; digest::SHA256_OUTPUT_LEN]);

impl CacheKey {
    /// The root of a model's keys: the hash of what all its KV states depend on.
    pub(crate) fn of_model(parts: &[&str]) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in parts {
            // The length comes first, so that no two lists hash alike.
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        Self::finish(context)
    }

    /// The key of these tokens, computed after what this key stands for.
    pub(crate) fn followed_by(self, tokens: &[Token]) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&self.0);
        tokens.iter().for_each(|token| context.update(&token.to_le_bytes()));
        Self::finish(context)
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

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_changes_the_key() {
        let model = CacheKey::of_model(&["model", "f16"]);
        let keys = [
            model,
            CacheKey::of_model(&["mode", "lf16"]),
            CacheKey::of_model(&["model", "q8_0"]),
            model.followed_by(&[1, 2]),
            model.followed_by(&[1, 3]),
            model.followed_by(&[1]).followed_by(&[2]),
            model.followed_by(&[]),
        ];
        for (number, key) in keys.iter().enumerate() {
            assert!(!keys[number + 1..].contains(key), "{number}");
        }
        assert_eq!(model, CacheKey::of_model(&["model", "f16"]));
        assert_eq!(model.to_string().len(), 64);
    }
}
