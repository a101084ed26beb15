//! A single embedding call: bounded in time and size, its response checked, without retries.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use domain::{Failure, FailureKind};
use reqwest::{Response, StatusCode};
use tokio::time::timeout;

use super::api::EmbeddingApi;
use super::vectors::{InvalidVectors, unit_vectors};
use crate::http::{ErrorResponse, ModelServer};

/// Upper bound on a response, in bytes per text: 8192 numbers with 64 bytes each.
const MAX_VECTOR_BYTES: usize = 512 << 10;

/// The client of one embedding server.
pub(super) struct EmbeddingClient {
    pub(super) api: &'static dyn EmbeddingApi,
    pub(super) server: ModelServer,
    pub(super) model: String,
    /// As configured, or as in the first response.
    pub(super) dimension: OnceLock<usize>,
    pub(super) timeout: Duration,
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The server refused the request, perhaps because of too many or too long texts.
    TooLarge(Failure),
    Other(Failure),
}

impl From<Failure> for CallFailure {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl EmbeddingClient {
    /// The embeddings of these texts, in their order.
    pub(super) async fn call(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, CallFailure> {
        timeout(self.timeout, self.ask(texts)).await.unwrap_or_else(|_| Err(self.timed_out().into()))
    }

    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, CallFailure> {
        let request = self.api.request(&self.model, texts);
        let response = self.server.post(self.api.path(), request).await?;
        if !response.status().is_success() {
            return Err(self.failure_of(&ErrorResponse::read(response).await));
        }
        let body = self.read(response, texts.len() * MAX_VECTOR_BYTES).await?;
        let vectors = self.api.response(&body).map_err(|error| {
            self.unusable(&format!("it cannot be read: {error}; check base_url, and that the model embeds"))
        })?;
        let vectors = unit_vectors(vectors, texts.len(), self.dimension.get().copied());
        let vectors = vectors.map_err(|invalid| self.unusable(&invalid))?;
        self.learn_dimension(&vectors)?;
        Ok(vectors)
    }

    async fn read(&self, mut response: Response, bound: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.server.unreachable(&error))? {
            if body.len() + chunk.len() > bound {
                return Err(self.unusable(&format!("it has more than {bound} bytes; check base_url")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Sets the dimension from the first response. Of two concurrent first responses the slower one has to agree.
    fn learn_dimension(&self, vectors: &[Vec<f32>]) -> Result<(), Failure> {
        let Some(got) = vectors.first().map(Vec::len) else { return Ok(()) };
        let expected = *self.dimension.get_or_init(|| got);
        if got != expected {
            return Err(self.unusable(&InvalidVectors::Dimension { got, expected }));
        }
        Ok(())
    }

    fn failure_of(&self, response: &ErrorResponse) -> CallFailure {
        let mut failure = self.server.failure_of(response);
        if failure.kind == FailureKind::TooLong {
            failure.message.push_str("; set token_limit to what the model takes");
            return CallFailure::TooLarge(failure);
        }
        match response.status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
                CallFailure::TooLarge(failure)
            }
            _ => CallFailure::Other(failure),
        }
    }

    /// The failure of a response that breaks the API's promises. A retry would not help.
    fn unusable(&self, why: &dyn fmt::Display) -> Failure {
        let message = format!("the answer of {} cannot be used: {why}", self.model);
        Failure::new(FailureKind::Refused, message)
    }

    fn timed_out(&self) -> Failure {
        let message = format!(
            "no answer within {:?}: if the model needs longer to load, raise timeout_seconds; else lower batch_texts",
            self.timeout
        );
        Failure::new(FailureKind::Unavailable, message)
    }
}
