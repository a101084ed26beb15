//! One call for vectors: bounded in time and size, and its answer checked. Nothing is tried twice here.

use std::sync::OnceLock;
use std::time::Duration;

use domain::{Failure, FailureKind};
use reqwest::{Response, StatusCode};
use tokio::time::timeout;

use super::api::Api;
use super::vectors::{checked, wrong_dimension};
use crate::model_server::ModelServer;
use crate::refusal::Refusal;

/// An answer may not have more bytes than this for each text: 8192 numbers, generously printed.
const MAX_VECTOR_BYTES: usize = 512 << 10;

/// Whom to call, and what its answers are held to.
pub(super) struct Caller {
    pub(super) api: &'static dyn Api,
    pub(super) server: ModelServer,
    pub(super) model: String,
    /// As configured, or as the first answer told.
    pub(super) dimension: OnceLock<usize>,
    pub(super) timeout: Duration,
}

/// Why a call gave no vectors.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Perhaps because the texts were too many or too long.
    TooMuch(Failure),
    Other(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl Caller {
    /// The vectors of these texts, in their order.
    pub(super) async fn call(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, Trouble> {
        timeout(self.timeout, self.ask(texts)).await.unwrap_or_else(|_| Err(self.silent().into()))
    }

    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, Trouble> {
        let request = self.api.request(&self.model, texts);
        let response = self.server.post(self.api.path(), request).await?;
        if !response.status().is_success() {
            return Err(self.refused(&Refusal::read(response).await));
        }
        let body = self.read(response, texts.len() * MAX_VECTOR_BYTES).await?;
        let answer = self.api.answer(&body).map_err(|error| {
            self.unusable(&format!("it cannot be read: {error}; check base_url, and that the model embeds"))
        })?;
        let vectors = checked(answer, texts.len(), self.dimension.get().copied());
        let vectors = vectors.map_err(|why| self.unusable(&why))?;
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

    /// Two first answers may come at once, and the slower one has to agree.
    fn learn_dimension(&self, vectors: &[Vec<f32>]) -> Result<(), Failure> {
        let Some(got) = vectors.first().map(Vec::len) else { return Ok(()) };
        let expected = *self.dimension.get_or_init(|| got);
        if got != expected {
            return Err(self.unusable(&wrong_dimension(got, expected)));
        }
        Ok(())
    }

    fn refused(&self, refusal: &Refusal) -> Trouble {
        let mut failure = self.server.refused(refusal);
        if failure.kind == FailureKind::TooLong {
            failure.message.push_str("; set token_limit to what the model takes");
            return Trouble::TooMuch(failure);
        }
        match refusal.status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
                Trouble::TooMuch(failure)
            }
            _ => Trouble::Other(failure),
        }
    }

    /// The server does not do what it should, and would not do so the next time.
    fn unusable(&self, why: &str) -> Failure {
        let message = format!("the answer of {} cannot be used: {why}", self.model);
        Failure::new(FailureKind::Refused, message)
    }

    fn silent(&self) -> Failure {
        let message = format!(
            "no answer within {:?}: if the model needs longer to load, raise timeout_seconds; else lower batch_texts",
            self.timeout
        );
        Failure::new(FailureKind::Unavailable, message)
    }
}
