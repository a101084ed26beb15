//! Texts as tokens, exactly as the model's own tokenizer makes them. What looks like a special token in a text
//! is only text: no document can end itself.

use std::path::Path;
use std::sync::Arc;

use domain::TokenCounter;
use tokenizers::{Tokenizer, TruncationParams};

use super::invalid::InvalidModel;
use super::weights::Architecture;

/// Bytes of a text that are looked at. No model's token limit lets more of a real text count.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Makes tokens of texts.
pub(crate) struct Tokens(Tokenizer);

impl Tokens {
    /// Reads a tokenizer's description. Its own ideas of truncation and padding do not count.
    pub(crate) fn new(
        description: &[u8],
        architecture: &Architecture,
        path: &Path,
    ) -> Result<Self, InvalidModel> {
        let damaged = |reason: String| InvalidModel::description(path, "tokenizer", reason);
        let mut tokenizer = Tokenizer::from_bytes(description).map_err(|error| damaged(error.to_string()))?;
        let largest = tokenizer.get_vocab(true).into_values().max().unwrap_or(0);
        if largest as usize >= architecture.vocabulary {
            let vocabulary = architecture.vocabulary;
            return Err(damaged(format!("it has a token {largest}, the model knows {vocabulary} tokens")));
        }
        let truncation = TruncationParams { max_length: architecture.token_limit, ..Default::default() };
        tokenizer.with_padding(None);
        tokenizer.with_truncation(Some(truncation)).map_err(|error| damaged(error.to_string()))?;
        tokenizer.set_encode_special_tokens(true);
        let tokens = Self(tokenizer);
        // A tokenizer that fails on nothing would fail on everything.
        match tokens.encode("") {
            Ok(special) if !special.is_empty() => Ok(tokens),
            Ok(_) => Err(damaged("it puts no token before a text".to_owned())),
            Err(reason) => Err(damaged(reason)),
        }
    }

    /// The tokens of a text with the special ones around them, at most the token limit.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        let encoding = self.0.encode_fast(&text[..end], true).map_err(|error| error.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Counts the tokens of any text, the special ones around it included; one that cannot be made into tokens
    /// has as many as it has bytes.
    pub(crate) fn counter(&self) -> TokenCounter {
        let mut tokenizer = self.0.clone();
        tokenizer.with_truncation(None).expect("nothing is truncated, so nothing can be wrong with it");
        Arc::new(move |text| tokenizer.encode_fast(text, true).map_or(text.len(), |encoding| encoding.len()))
    }
}
