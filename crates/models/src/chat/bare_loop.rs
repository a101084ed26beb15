//! A loop that calls llama.cpp and nothing else, one prompt at a time: the reference that tests compare answers with, and
//! benchmarks compare speeds with.

use std::path::Path;
use std::sync::Arc;

use super::cpu_features;
use super::llama::{Batch, Context, ContextSize, DecodeOutcome, Sequence, Token, Weights};
use super::load_error::{LoadError, ModelError};
use super::repacked_weights::{ModelFile, weight_file};
use super::sampler::Sampler;
use super::worker::BATCH_TOKENS;

/// A model, and the tokens in its KV cache.
pub struct BareLoop {
    context: Context,
    sequence: Sequence,
    batch: Batch,
    computed: usize,
}

impl BareLoop {
    /// Loads the weights that a provider would load.
    pub fn open(file: &ModelFile, cache: &Path, threads: usize) -> Result<Self, LoadError> {
        cpu_features::check()?;
        let path = weight_file(file, &cache.join("weights"), threads).path;
        let weights = Weights::load(&path, &|| true);
        let bare = weights.and_then(|weights| Self::new(Arc::new(weights), threads));
        bare.map_err(|error| error.at(path))
    }

    pub(super) fn new(weights: Arc<Weights>, threads: usize) -> Result<Self, ModelError> {
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        let size = ContextSize { tokens: 8_192, batch: 512, sequences: 1, threads };
        let context = Context::new(weights, size)?;
        let sequence = context.sequences().next().expect("a context has a sequence");
        Ok(Self { context, sequence, batch: Batch::default(), computed: 0 })
    }

    /// Truncates the KV cache to its first tokens.
    pub fn truncate(&mut self, tokens: usize) {
        let is_truncated = self.context.truncate(self.sequence, tokens);
        self.computed = if is_truncated { self.computed.min(tokens) } else { 0 };
    }

    /// Computes tokens and returns the most likely next one.
    pub fn read(&mut self, tokens: &[i32]) -> Result<i32, ModelError> {
        let mut last = 0;
        for (number, chunk) in tokens.chunks(BATCH_TOKENS).enumerate() {
            self.batch.clear();
            for (index, &token) in chunk.iter().enumerate() {
                let is_last = number * BATCH_TOKENS + index + 1 == tokens.len();
                last = self.batch.push(self.sequence, self.computed, token, is_last);
                self.computed += 1;
            }
            match self.context.decode(&mut self.batch, &|| false) {
                DecodeOutcome::Done => {}
                DecodeOutcome::Aborted => return Err(ModelError::Decode(2)),
                DecodeOutcome::Failed(code) => return Err(ModelError::Decode(code)),
            }
        }
        let next = self.context.logits(last).and_then(|logits| Sampler::new(0.0, None).pick(logits));
        next.ok_or_else(|| ModelError::Rejected("it computes no finite logits".to_owned()))
    }

    /// Meaningless tokens.
    pub fn filler(&self, tokens: usize) -> Vec<i32> {
        let size = self.context.weights().vocabulary().size();
        (0..tokens).map(|number| Token::try_from(100 + number * 37 % (size / 2)).unwrap_or(0)).collect()
    }
}
