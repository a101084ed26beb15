//! Settings of embedders.

use std::time::Duration;

use crate::settings::{InvalidSettings, Secret};

/// Settings of an embedder that calls a model server.
#[derive(Clone, Debug)]
pub struct HttpEmbedderSettings {
    /// The name under which it is configured; failure messages begin with it.
    pub name: String,
    /// Base URL of the API: `http://127.0.0.1:11434` for Ollama, `https://api.openai.com/v1` for OpenAI.
    pub base_url: String,
    /// The model to ask for.
    pub model: String,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
    /// Connect timeout.
    pub connect: Duration,
    /// The proxy to use, which may contain a password; none means a direct connection.
    pub proxy: Option<Secret>,
    /// Numbers per vector. Without it the first response sets the dimension, and later ones must have the same.
    pub dimension: Option<usize>,
    /// Tokens of a text that the model reads.
    pub token_limit: usize,
    /// Bounds on a call and on concurrent calls.
    pub batches: BatchLimits,
    /// Timeout of one call, including the time in which the server loads the model.
    pub timeout: Duration,
    /// Limits of the retries of bulk calls.
    pub retries: RetryLimits,
}

impl HttpEmbedderSettings {
    /// Refuses bounds of zero, with which no text could be embedded.
    pub(super) fn check(&self) -> Result<(), InvalidSettings> {
        let bounds = [
            ("dimension", self.dimension.unwrap_or(1)),
            ("token_limit", self.token_limit),
            ("batch_texts", self.batches.texts),
            ("batch_bytes", self.batches.bytes),
            ("calls", self.batches.calls),
        ];
        match bounds.into_iter().find(|&(_, bound)| bound == 0) {
            Some((key, _)) => Err(InvalidSettings { key, message: "it must be at least 1".to_owned() }),
            None => Ok(()),
        }
    }
}

/// Bounds on a call and on concurrent calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Upper bound on the texts of a call.
    pub texts: usize,
    /// Upper bound on the bytes of a call's texts; a single longer text is sent alone.
    pub bytes: usize,
    /// Upper bound on concurrent bulk calls. Interactive calls are neither counted nor delayed.
    pub calls: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { texts: 32, bytes: 256 << 10, calls: 2 }
    }
}

/// Limits of a call's retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// Attempts in total, at least one.
    pub attempts: u32,
    /// No attempt begins later than this after the first one.
    pub within: Duration,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self { attempts: 6, within: Duration::from_secs(120) }
    }
}
