//! What differs between the servers that give vectors. Pure, but for the health check.

use domain::Failure;
use futures::future::BoxFuture;

use crate::model_server::{Advice, ModelServer};

/// One server's way to ask for vectors.
pub(super) trait Api: Send + Sync {
    /// Where vectors are asked for.
    fn path(&self) -> &'static [&'static str];

    /// What to do about failures.
    fn advice(&self) -> Advice;

    /// The body of a request.
    fn request(&self, model: &str, texts: &[&str]) -> Vec<u8>;

    /// Reads the body of an answer.
    fn answer(&self, body: &[u8]) -> serde_json::Result<Vec<Numbered>>;

    /// Whether the server would embed now.
    fn health<'a>(&self, server: &'a ModelServer) -> BoxFuture<'a, Result<(), Failure>>;
}

/// A vector as it came.
#[derive(Debug, PartialEq)]
pub(super) struct Numbered {
    /// Which text it belongs to; without it, vectors come in the texts' order.
    pub(super) index: Option<usize>,
    pub(super) vector: Vec<Option<f32>>,
}
