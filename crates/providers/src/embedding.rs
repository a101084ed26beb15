//! Embeddings from a model server. Texts are sent in batches, transient failures are retried, and every result is
//! checked: one vector per text, each of length one.

mod api;
mod batching;
mod client;
mod ollama;
mod openai;
mod retry;
mod settings;
mod vectors;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use domain::{Embedder, EmbeddingPriority, EmbeddingShape, Failure, TokenCounter};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::cl100k::count_tokens;
use crate::http::ModelServer;
use crate::settings::{HttpProviderSettings, InvalidSettings};
use api::EmbeddingApi;
use client::{CallFailure, EmbeddingClient};
use retry::Backoff;
pub use settings::{BatchLimits, HttpEmbedderSettings, RetryLimits};

/// The text that is embedded to learn the dimension.
const PROBE: &str = "dimension";

/// An embedder that calls a model server. Dropping a call's future aborts the call.
pub struct RemoteEmbedder {
    client: EmbeddingClient,
    name: String,
    token_limit: usize,
    batches: BatchLimits,
    retries: RetryLimits,
    /// One permit per bulk call. A call holds it through its retries, so that a server that asks for a pause gets one.
    bulk: Semaphore,
}

impl RemoteEmbedder {
    /// An embedder that calls a server with OpenAI's API. The first call connects.
    ///
    /// # Errors
    /// If the address, the key or the proxy is invalid, or a bound is zero.
    pub fn openai(settings: HttpEmbedderSettings) -> Result<Self, InvalidSettings> {
        Self::new(settings, &openai::OpenAiEmbeddings)
    }

    /// An embedder that calls an Ollama server. The first call connects.
    ///
    /// # Errors
    /// If the address, the key or the proxy is invalid, or a bound is zero.
    pub fn ollama(settings: HttpEmbedderSettings) -> Result<Self, InvalidSettings> {
        Self::new(settings, &ollama::OllamaEmbeddings)
    }

    fn new(settings: HttpEmbedderSettings, api: &'static dyn EmbeddingApi) -> Result<Self, InvalidSettings> {
        settings.check()?;
        let server = HttpProviderSettings {
            name: settings.name.clone(),
            base_url: settings.base_url,
            model: Some(settings.model.clone()),
            api_key: settings.api_key,
            context_window: settings.token_limit,
            connect: settings.connect,
            proxy: settings.proxy,
        };
        let client = EmbeddingClient {
            api,
            server: ModelServer::new(server, api.advice())?,
            model: settings.model,
            dimension: settings.dimension.map(OnceLock::from).unwrap_or_default(),
            timeout: settings.timeout,
        };
        Ok(Self {
            client,
            name: settings.name,
            token_limit: settings.token_limit,
            batches: settings.batches,
            retries: settings.retries,
            bulk: Semaphore::new(settings.batches.calls.min(Semaphore::MAX_PERMITS)),
        })
    }

    /// Embeds one batch: in one call if the server accepts it, else in smaller ones, so that a text that is too long
    /// does not fail the others.
    async fn batch(&self, texts: Vec<&str>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        let _permit = match priority {
            EmbeddingPriority::Interactive => None,
            EmbeddingPriority::Bulk => {
                Some(self.bulk.acquire().await.expect("the semaphore is never closed"))
            }
        };
        let mut vectors = Vec::with_capacity(texts.len());
        let mut calls = vec![texts];
        while let Some(texts) = calls.pop() {
            match self.call_with_retries(&texts, priority).await {
                Ok(found) => vectors.extend(found),
                Err(CallFailure::Other(failure)) => return Err(failure),
                Err(CallFailure::TooLarge(failure)) => {
                    let (model, count) = (&self.client.model, texts.len());
                    tracing::debug!(model, texts = count, reason = %failure, "the server refused a call; it is split");
                    let smaller = batching::split(&texts, self.token_limit).ok_or(failure)?;
                    calls.extend(smaller.into_iter().rev());
                }
            }
        }
        Ok(vectors)
    }

    /// Retries a call after transient failures.
    async fn call_with_retries(
        &self,
        texts: &[&str],
        priority: EmbeddingPriority,
    ) -> Result<Vec<Vec<f32>>, CallFailure> {
        let mut backoff = Backoff::new(priority, self.retries);
        loop {
            let failure = match self.client.call(texts).await {
                Err(CallFailure::Other(failure)) => failure,
                result => return result,
            };
            let Some(wait) = backoff.next_wait(&failure) else { return Err(failure.into()) };
            tracing::debug!(model = self.client.model, ?wait, reason = %failure, "an embedding call is retried");
            sleep(wait).await;
        }
    }

    /// Prefixes a failure with the embedder's configured name.
    fn named(&self, mut failure: Failure) -> Failure {
        failure.message = format!("{}: {}", self.name, failure.message);
        failure
    }
}

#[async_trait]
impl Embedder for RemoteEmbedder {
    fn model(&self) -> &str {
        &self.client.model
    }

    async fn shape(&self) -> Result<EmbeddingShape, Failure> {
        if self.client.dimension.get().is_none() {
            self.embed(vec![PROBE.to_owned()], EmbeddingPriority::Bulk).await?;
        }
        let dimension = *self.client.dimension.get().expect("an accepted response has set it");
        Ok(EmbeddingShape { dimension, token_limit: self.token_limit })
    }

    async fn token_counter(&self) -> Result<TokenCounter, Failure> {
        // The model's own tokenizer is unknown; most have a smaller vocabulary, and so give more tokens.
        Ok(Arc::new(|text| count_tokens(text) * 5 / 4))
    }

    async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        let sent: Vec<&str> = texts.iter().map(|text| batching::sent(text, self.token_limit)).collect();
        let batches = batching::batches(&sent, self.batches).into_iter();
        let calls: Vec<_> = batches.map(|batch| self.batch(batch, priority)).collect();
        let vectors = stream::iter(calls).buffered(self.batches.calls).try_concat().await;
        vectors.map_err(|failure| self.named(failure))
    }

    async fn health(&self) -> Result<(), Failure> {
        let health = self.client.server.check_in_time(self.client.api.health(&self.client.server)).await;
        health.map_err(|failure| self.named(failure))
    }
}
