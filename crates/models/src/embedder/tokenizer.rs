//! Tokenizes texts exactly as the model's own tokenizer does. Special tokens that are spelled out in a text
//! are encoded as text, so a document cannot end itself.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use domain::TokenCounter;
use tokenizers::{Tokenizer, TruncationParams};

use super::checkpoint::Architecture;
use super::invalid_model::InvalidModel;

/// Bytes of a text that are tokenized; enough for the token limit of any model and any real text.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// A model's tokenizer.
pub(crate) struct TextTokenizer(Tokenizer);

/// A text that the tokenizer rejects.
#[derive(Debug, thiserror::Error)]
#[error("a text cannot be tokenized: {0}")]
pub(crate) struct TokenizeError(#[source] pub(crate) Box<dyn Error + Send + Sync>);

impl TextTokenizer {
    /// Reads a `tokenizer.json`. Its settings of truncation and padding are replaced.
    pub(crate) fn new(json: &[u8], architecture: &Architecture, path: &Path) -> Result<Self, InvalidModel> {
        let malformed = |reason| InvalidModel::malformed(path, "tokenizer", reason);
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(malformed)?;
        let largest = tokenizer.get_vocab(true).into_values().max().unwrap_or(0);
        if largest as usize >= architecture.vocabulary {
            let vocabulary = architecture.vocabulary;
            let reason = format!("it has a token {largest}, but the model has {vocabulary} tokens");
            return Err(malformed(reason.into()));
        }
        let truncation = TruncationParams { max_length: architecture.token_limit, ..Default::default() };
        tokenizer.with_padding(None);
        tokenizer.with_truncation(Some(truncation)).map_err(malformed)?;
        tokenizer.set_encode_special_tokens(true);
        let tokenizer = Self(tokenizer);
        // A tokenizer that fails on the empty text would fail on every text.
        match tokenizer.tokenize("") {
            Ok(special) if !special.is_empty() => Ok(tokenizer),
            Ok(_) => Err(malformed("it puts no token before a text".into())),
            Err(TokenizeError(reason)) => Err(malformed(reason)),
        }
    }

    /// The tokens of a text with the special tokens around them, truncated to the token limit.
    pub(crate) fn tokenize(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        let encoding = self.0.encode_fast(&text[..end], true).map_err(TokenizeError)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Counts the tokens of a text of any length, with the special tokens around it. A text that cannot be
    /// tokenized counts as many tokens as it has bytes, which is an upper bound.
    pub(crate) fn counter(&self) -> TokenCounter {
        let mut tokenizer = self.0.clone();
        tokenizer.with_truncation(None).expect("no truncation is always valid");
        Arc::new(move |text| tokenizer.encode_fast(text, true).map_or(text.len(), |encoding| encoding.len()))
    }
}
