//! Texts as vectors: what means the same lies close together.

use std::sync::Arc;

use async_trait::async_trait;

use crate::Failure;

/// Turns texts into vectors. Vectors of different models are never compared.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// The name of its model, which is kept with every vector.
    fn model(&self) -> &str;

    /// What its vectors are like. Waits for a model that is being loaded.
    async fn shape(&self) -> Result<EmbeddingShape, Failure>;

    /// Counts the tokens of texts as its model does, or a few more. Waits for a model that is being loaded.
    async fn token_counter(&self) -> Result<TokenCounter, Failure>;

    /// One vector a text, in the texts' order, each of length one. What a text has beyond the token limit
    /// does not count. Waits for a model that is being loaded.
    async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure>;

    /// Whether it would embed now. Never waits for a model that is being loaded.
    async fn health(&self) -> Result<(), Failure>;
}

/// What the vectors of a model are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingShape {
    /// Numbers in a vector.
    pub dimension: usize,
    /// Tokens of a text that count.
    pub token_limit: usize,
}

/// Counts the tokens of a text, however many it has.
pub type TokenCounter = Arc<dyn Fn(&str) -> usize + Send + Sync>;

/// Who waits for the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddingPriority {
    /// A query that a client waits for; runs before bulk work.
    Interactive,
    /// Ingest or reindexing; runs when no query is queued.
    Bulk,
}
