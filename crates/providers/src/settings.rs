//! Settings of providers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// Settings of a provider that calls a model server.
#[derive(Clone, Debug)]
pub struct HttpProviderSettings {
    /// The name under which it is configured.
    pub name: String,
    /// Base URL of the API: `http://127.0.0.1:11434` for Ollama, `https://api.openai.com/v1` for OpenAI.
    pub base_url: String,
    /// The model to ask for. Without one every call fails with a message that says how to set it.
    pub model: Option<String>,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
    /// The model's context window in tokens, prompt and answer together.
    pub context_window: usize,
    /// Connect timeout.
    pub connect: Duration,
    /// The proxy to use, which may contain a password; none means a direct connection.
    pub proxy: Option<Secret>,
}

/// A secret setting. Its `Debug` output is masked.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self(Arc::from(secret))
    }
}

impl From<&str> for Secret {
    fn from(secret: &str) -> Self {
        Self(Arc::from(secret))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A setting with which no provider or embedder can be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {message}")]
pub struct InvalidSettings {
    /// Its key in the settings file.
    pub key: &'static str,
    /// What is wrong with it and what is allowed.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked() {
        let settings = HttpProviderSettings {
            name: "remote".to_owned(),
            base_url: "https://api.openai.com/v1".to_owned(),
            model: None,
            api_key: Some(Secret::from("sk-very-secret")),
            context_window: 8192,
            connect: Duration::from_secs(5),
            proxy: Some(Secret::from("http://me:hidden@proxy:3128")),
        };
        let shown = format!("{settings:?}");
        assert!(!shown.contains("very-secret") && !shown.contains("hidden"), "{shown}");
    }
}
