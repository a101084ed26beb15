//! Vectors from a model server. A call carries as many texts as its bounds allow, failures that pass are
//! waited out, and only what keeps to the port's promise leaves: a vector a text, each of length one.

mod api;
mod call;
mod ollama;
mod openai;
mod settings;
mod texts;
mod vectors;
mod waits;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use domain::{Embedder, EmbeddingPriority, EmbeddingShape, Failure, TokenCounter};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::cl100k::count_tokens;
use crate::model_server::ModelServer;
use crate::settings::{HttpProvider, InvalidSettings};
use api::Api;
use call::{Caller, Trouble};
pub use settings::{Batches, HttpEmbedder, Retries};
use waits::Waits;

/// What is embedded to learn the dimension.
const PROBE: &str = "dimension";

/// An embedder that asks a model server. Dropping a call's future ends the call.
pub struct RemoteEmbedder {
    caller: Caller,
    name: String,
    token_limit: usize,
    batches: Batches,
    retries: Retries,
    /// A permit for each call that nobody in particular waits for. It is kept through retries, so that a
    /// server that asks for patience gets it.
    bulk: Semaphore,
}

impl RemoteEmbedder {
    /// One that asks a server with OpenAI's API. Connects to nothing yet.
    ///
    /// # Errors
    /// If the address, the key or the proxy cannot be used, or a bound is zero.
    pub fn openai(settings: HttpEmbedder) -> Result<Self, InvalidSettings> {
        Self::new(settings, &openai::OpenAi)
    }

    /// One that asks an Ollama server. Connects to nothing yet.
    ///
    /// # Errors
    /// If the address, the key or the proxy cannot be used, or a bound is zero.
    pub fn ollama(settings: HttpEmbedder) -> Result<Self, InvalidSettings> {
        Self::new(settings, &ollama::Ollama)
    }

    fn new(settings: HttpEmbedder, api: &'static dyn Api) -> Result<Self, InvalidSettings> {
        settings.check()?;
        let server = HttpProvider {
            name: settings.name.clone(),
            base_url: settings.base_url,
            model: Some(settings.model.clone()),
            api_key: settings.api_key,
            context_window: settings.token_limit,
            connect: settings.connect,
            proxy: settings.proxy,
        };
        let caller = Caller {
            api,
            server: ModelServer::new(server, api.advice())?,
            model: settings.model,
            dimension: settings.dimension.map(OnceLock::from).unwrap_or_default(),
            timeout: settings.timeout,
        };
        Ok(Self {
            caller,
            name: settings.name,
            token_limit: settings.token_limit,
            batches: settings.batches,
            retries: settings.retries,
            bulk: Semaphore::new(settings.batches.calls.min(Semaphore::MAX_PERMITS)),
        })
    }

    /// The vectors of these texts: one call if the server takes them all, and smaller ones if it does not,
    /// so that one text that is too long fails no other.
    async fn batch(&self, texts: Vec<&str>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        let _permit = match priority {
            EmbeddingPriority::Interactive => None,
            EmbeddingPriority::Bulk => Some(self.bulk.acquire().await.expect("it is never closed")),
        };
        let mut vectors = Vec::with_capacity(texts.len());
        let mut calls = vec![texts];
        while let Some(texts) = calls.pop() {
            match self.patiently(&texts, priority).await {
                Ok(found) => vectors.extend(found),
                Err(Trouble::Other(failure)) => return Err(failure),
                Err(Trouble::TooMuch(failure)) => {
                    let (model, count) = (&self.caller.model, texts.len());
                    tracing::debug!(model, texts = count, reason = %failure, "a call is made smaller");
                    let smaller = texts::smaller(&texts, self.token_limit).ok_or(failure)?;
                    calls.extend(smaller.into_iter().rev());
                }
            }
        }
        Ok(vectors)
    }

    /// Calls again after failures that pass by themselves.
    async fn patiently(&self, texts: &[&str], priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Trouble> {
        let mut waits = Waits::new(priority, self.retries);
        loop {
            let failure = match self.caller.call(texts).await {
                Err(Trouble::Other(failure)) => failure,
                result => return result,
            };
            let Some(wait) = waits.after(&failure) else { return Err(failure.into()) };
            tracing::debug!(model = self.caller.model, ?wait, reason = %failure, "vectors are asked for again");
            sleep(wait).await;
        }
    }

    /// The failure under the name that the server is configured under.
    fn named(&self, mut failure: Failure) -> Failure {
        failure.message = format!("{}: {}", self.name, failure.message);
        failure
    }
}

#[async_trait]
impl Embedder for RemoteEmbedder {
    fn model(&self) -> &str {
        &self.caller.model
    }

    async fn shape(&self) -> Result<EmbeddingShape, Failure> {
        if self.caller.dimension.get().is_none() {
            self.embed(vec![PROBE.to_owned()], EmbeddingPriority::Bulk).await?;
        }
        let dimension = *self.caller.dimension.get().expect("an answer that was taken has told it");
        Ok(EmbeddingShape { dimension, token_limit: self.token_limit })
    }

    async fn token_counter(&self) -> Result<TokenCounter, Failure> {
        // The model's own vocabulary is not known, and most are smaller than this one.
        Ok(Arc::new(|text| count_tokens(text) * 5 / 4))
    }

    async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        let sent: Vec<&str> = texts.iter().map(|text| texts::sent(text, self.token_limit)).collect();
        let batches = texts::batches(&sent, self.batches).into_iter();
        let calls: Vec<_> = batches.map(|batch| self.batch(batch, priority)).collect();
        let vectors = stream::iter(calls).buffered(self.batches.calls).try_concat().await;
        vectors.map_err(|failure| self.named(failure))
    }

    async fn health(&self) -> Result<(), Failure> {
        let health = self.caller.server.in_time(self.caller.api.health(&self.caller.server)).await;
        health.map_err(|failure| self.named(failure))
    }
}
