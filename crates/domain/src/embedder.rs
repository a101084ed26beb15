//! Embeddings: texts as vectors, whose cosine is a measure of how close their meanings are.

use std::sync::Arc;

use async_trait::async_trait;

use crate::Failure;

/// Computes the vectors of texts. Vectors of different models are never compared.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// The name of the model, which is stored with every vector.
    fn model(&self) -> &str;

    /// The dimension and the input limit of the model. Waits while the model is loading.
    async fn shape(&self) -> Result<EmbeddingShape, Failure>;

    /// A token counter of the model, which may overestimate but never underestimates. Waits while the model
    /// is loading.
    async fn token_counter(&self) -> Result<TokenCounter, Failure>;

    /// One unit vector per text, in the texts' order. Text beyond the token limit is ignored. Waits while the
    /// model is loading.
    async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure>;

    /// Whether the embedder can embed now. Does not wait for a model that is loading.
    async fn health(&self) -> Result<(), Failure>;
}

/// The shape of a model's input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingShape {
    /// Components of a vector.
    pub dimension: usize,
    /// Maximum tokens of a text that affect its vector.
    pub token_limit: usize,
}

/// Counts the tokens of a text of any length.
pub type TokenCounter = Arc<dyn Fn(&str) -> usize + Send + Sync>;

/// How urgent an embedding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddingPriority {
    /// A query that a client waits for; runs before bulk work.
    Interactive,
    /// Ingest or reindexing; runs when no query is queued.
    Bulk,
}
