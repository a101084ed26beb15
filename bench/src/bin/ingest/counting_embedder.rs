//! An embedder that only counts tokens, so that an ingest is measured without embedding.

use std::sync::Arc;

use domain::{Embedder, EmbeddingPriority, EmbeddingShape, Failure, FailureKind, TokenCounter};

/// Counts tokens like another embedder, and embeds nothing.
pub(crate) struct CountingEmbedder(pub(crate) Arc<dyn Embedder>);

#[async_trait::async_trait]
impl Embedder for CountingEmbedder {
    fn model(&self) -> &str {
        self.0.model()
    }

    async fn shape(&self) -> Result<EmbeddingShape, Failure> {
        self.0.shape().await
    }

    async fn token_counter(&self) -> Result<TokenCounter, Failure> {
        self.0.token_counter().await
    }

    async fn embed(
        &self,
        _texts: Vec<String>,
        _urgency: EmbeddingPriority,
    ) -> Result<Vec<Vec<f32>>, Failure> {
        Err(Failure::new(FailureKind::Internal, "nothing is embedded here"))
    }

    async fn health(&self) -> Result<(), Failure> {
        self.0.health().await
    }
}
