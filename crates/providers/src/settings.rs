//! What a provider needs to be told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A model server as it is configured.
#[derive(Clone, Debug)]
pub struct HttpProvider {
    /// The name it is configured under.
    pub name: String,
    /// Where its API begins: `http://127.0.0.1:11434` for Ollama, `https://api.openai.com/v1` for OpenAI.
    pub base_url: String,
    /// The model to ask for. Without one every call is refused with a message that says how to set it.
    pub model: Option<String>,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
    /// How many tokens the model can look at, question and answer together.
    pub context_window: usize,
    /// How long connecting may take.
    pub connect: Duration,
    /// The proxy to go through, which may carry a password; none means a direct connection.
    pub proxy: Option<Secret>,
}

/// A setting that no log may show.
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

/// A setting that no provider can be made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSettings {
    /// Which one, by its key in the settings file.
    pub key: &'static str,
    /// What is wrong with it and what is allowed.
    pub message: String,
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for InvalidSettings {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked() {
        let settings = HttpProvider {
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
