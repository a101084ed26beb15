//! A loop that does nothing but call llama.cpp, for one prompt at a time: what answers are measured against.

use std::path::Path;
use std::sync::Arc;

use super::llama::{Batch, Context, ContextSize, Decoded, Sequence, Token, Weights};
use super::prepared::{ModelFile, prepare};
use super::processor;
use super::sampler::Sampler;

const BATCH: usize = 512;

/// A model and the tokens that it has read.
pub struct BareLoop {
    context: Context,
    sequence: Sequence,
    batch: Batch,
    read: usize,
}

impl BareLoop {
    /// Loads the weights that a provider would load.
    pub fn open(file: &ModelFile, cache: Option<&Path>, threads: usize) -> Result<Self, String> {
        processor::check()?;
        let prepared = cache.map(|cache| prepare(file, &cache.join("weights"), threads));
        let weights =
            Weights::load(prepared.as_ref().map_or(&file.path, |prepared| &prepared.path), &|| true)?;
        Self::new(Arc::new(weights), threads)
    }

    pub(super) fn new(weights: Arc<Weights>, threads: usize) -> Result<Self, String> {
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        let size = ContextSize { tokens: 8_192, batch: 512, sequences: 1, threads };
        let context = Context::new(weights, size)?;
        let sequence = context.sequences().next().ok_or("a context has a sequence")?;
        Ok(Self { context, sequence, batch: Batch::default(), read: 0 })
    }

    /// Forgets all but the first tokens.
    pub fn forget(&mut self, all_but: usize) {
        self.read = if self.context.cut(self.sequence, all_but) { self.read.min(all_but) } else { 0 };
    }

    /// Reads tokens, and tells the one that is most likely to follow.
    pub fn read(&mut self, tokens: &[i32]) -> Result<i32, String> {
        let mut last = 0;
        for (number, chunk) in tokens.chunks(BATCH).enumerate() {
            self.batch.clear();
            for (place, &token) in chunk.iter().enumerate() {
                let is_last = number * BATCH + place + 1 == tokens.len();
                last = self.batch.push(self.sequence, self.read, token, is_last);
                self.read += 1;
            }
            match self.context.decode(&mut self.batch, &|| false) {
                Decoded::Done => {}
                other => return Err(format!("llama.cpp cannot read this: {other:?}")),
            }
        }
        let likely = self.context.logits(last).and_then(|logits| Sampler::new(0.0, None).pick(logits));
        likely.ok_or_else(|| "nothing follows".to_owned())
    }

    /// So many tokens that mean nothing in particular.
    pub fn filler(&self, tokens: usize) -> Vec<i32> {
        let size = self.context.weights().vocabulary().size();
        (0..tokens).map(|number| Token::try_from(100 + number * 37 % (size / 2)).unwrap_or(0)).collect()
    }
}
