//! An embedder that returns a precomputed vector, so that a search is measured without embedding.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{Embedder, EmbeddingPriority, EmbeddingShape, Failure, TokenCounter};

pub(crate) struct Prepared(pub(crate) Vec<f32>);

#[async_trait]
impl Embedder for Prepared {
    fn model(&self) -> &str {
        super::MODEL
    }

    async fn shape(&self) -> Result<EmbeddingShape, Failure> {
        Ok(EmbeddingShape { dimension: self.0.len(), token_limit: 512 })
    }

    async fn token_counter(&self) -> Result<TokenCounter, Failure> {
        Ok(Arc::new(|text| text.split_whitespace().count()))
    }

    async fn embed(&self, texts: Vec<String>, _: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        Ok(vec![self.0.clone(); texts.len()])
    }

    async fn health(&self) -> Result<(), Failure> {
        Ok(())
    }
}
