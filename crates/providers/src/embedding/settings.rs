//! What an embedder over HTTP needs to be told.

use std::time::Duration;

use crate::settings::{InvalidSettings, Secret};

/// A model server that gives vectors, as it is configured.
#[derive(Clone, Debug)]
pub struct HttpEmbedder {
    /// The name it is configured under; every failure's message begins with it.
    pub name: String,
    /// Where its API begins: `http://127.0.0.1:11434` for Ollama, `https://api.openai.com/v1` for OpenAI.
    pub base_url: String,
    /// The model to ask for.
    pub model: String,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
    /// How long connecting may take.
    pub connect: Duration,
    /// The proxy to go through, which may carry a password; none means a direct connection.
    pub proxy: Option<Secret>,
    /// Numbers in a vector, if known. Else the first answer tells, and later ones are held to it.
    pub dimension: Option<usize>,
    /// Tokens of a text that the model looks at.
    pub token_limit: usize,
    /// What one call carries and how many run at once.
    pub batches: Batches,
    /// How long one call may take, a model that has to be loaded included.
    pub timeout: Duration,
    /// How patiently calls are tried again that nobody in particular waits for.
    pub retries: Retries,
}

impl HttpEmbedder {
    /// Refuses bounds with which nothing would ever be embedded.
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

/// What one call carries and how many run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// Texts in a call, at most.
    pub texts: usize,
    /// Bytes of texts in a call, at most; a single longer text still goes.
    pub bytes: usize,
    /// Calls at once. Queries do not count, and never wait for a call to end.
    pub calls: usize,
}

impl Default for Batches {
    fn default() -> Self {
        Self { texts: 32, bytes: 256 << 10, calls: 2 }
    }
}

/// How patiently a call is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Attempts in all, at least one.
    pub attempts: u32,
    /// No further attempt begins after this.
    pub within: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 6, within: Duration::from_secs(120) }
    }
}
