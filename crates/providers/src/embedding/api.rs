//! The difference between the embedding APIs. Pure but for the health check.

use domain::Failure;
use futures::future::BoxFuture;

use crate::http::{Advice, ModelServer};

/// An embedding API.
pub(super) trait EmbeddingApi: Send + Sync {
    /// The path of the endpoint, below the base URL.
    fn path(&self) -> &'static [&'static str];

    /// Advice for failures of the server.
    fn advice(&self) -> Advice;

    /// Encodes a request body.
    fn request(&self, model: &str, texts: &[&str]) -> Vec<u8>;

    /// Decodes a response body.
    fn response(&self, body: &[u8]) -> serde_json::Result<Vec<IndexedVector>>;

    /// Fails unless the server would embed now.
    fn health<'a>(&self, server: &'a ModelServer) -> BoxFuture<'a, Result<(), Failure>>;
}

/// A vector as the server sent it.
#[derive(Debug, PartialEq)]
pub(super) struct IndexedVector {
    /// The index of its text; without it, vectors are in the order of the texts.
    pub(super) index: Option<usize>,
    pub(super) vector: Vec<Option<f32>>,
}
