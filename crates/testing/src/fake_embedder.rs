//! An in-process embedder that records its texts and fails on certain words.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use domain::{Embedder, EmbeddingPriority, EmbeddingShape, Failure, FailureKind, TokenCounter};

use crate::fake_vector;

/// Components of a vector.
const DIMENSION: usize = 64;

/// Computes vectors of word counts, see [`fake_vector`]. A call fails with `Refused` if a text contains the
/// word `REFUSED`, and with `Unavailable` if one contains `BROKEN` or the embedder is
/// [down](FakeEmbedder::set_down).
#[derive(Debug, Default)]
pub struct FakeEmbedder {
    embedded: Mutex<Vec<String>>,
    is_down: AtomicBool,
}

impl FakeEmbedder {
    /// The name of the model.
    pub const MODEL: &str = "fake-embedder";

    /// An embedder that is not down.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes and returns the texts embedded so far.
    pub fn take_embedded(&self) -> Vec<String> {
        std::mem::take(&mut *self.embedded())
    }

    /// Makes every call fail, or succeed again.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Release);
    }

    fn embedded(&self) -> MutexGuard<'_, Vec<String>> {
        self.embedded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Embedder for FakeEmbedder {
    fn model(&self) -> &str {
        Self::MODEL
    }

    async fn shape(&self) -> Result<EmbeddingShape, Failure> {
        Ok(EmbeddingShape { dimension: DIMENSION, token_limit: 512 })
    }

    async fn token_counter(&self) -> Result<TokenCounter, Failure> {
        Ok(Arc::new(|text: &str| text.split_whitespace().map(|word| 1 + word.len() / 8).sum()))
    }

    async fn embed(&self, texts: Vec<String>, _urgency: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        let has = |word: &str| texts.iter().any(|text| text.contains(word));
        if has("BROKEN") || self.is_down.load(Ordering::Acquire) {
            return Err(Failure::new(FailureKind::Unavailable, "the embedder is broken"));
        }
        if has("REFUSED") {
            return Err(Failure::new(FailureKind::Refused, "the embedder refuses a text"));
        }
        let vector = |text: &String| {
            let vector = fake_vector(text, DIMENSION);
            let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
            vector.into_iter().map(|number| number / length).collect()
        };
        let vectors = texts.iter().map(vector).collect();
        self.embedded().extend(texts);
        Ok(vectors)
    }

    async fn health(&self) -> Result<(), Failure> {
        Ok(())
    }
}
