//! `[embedding]`: the embedder, a model in this process or on a server.

use std::time::Duration;

use ::models::files::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProviderKind;
use super::invalid_setting::InvalidSetting;
use super::models::{self, EmbeddedModel};
use super::secret::{Secret, SecretUrl};
use super::validator::{Validator, in_seconds};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EmbeddingSettings {
    pub(crate) kind: EmbeddingKind,
    pub(crate) model: Option<String>,
    /// Without a slash at its end.
    pub(crate) base_url: Option<String>,
    pub(crate) api_key_env: Option<String>,
    #[serde(skip)]
    pub(crate) api_key: Option<Secret>,
    #[serde(rename = "connect_seconds", serialize_with = "in_seconds")]
    pub(crate) connect: Duration,
    #[serde(rename = "timeout_seconds", serialize_with = "in_seconds")]
    pub(crate) timeout: Duration,
    pub(crate) proxy: Option<SecretUrl>,
    pub(crate) dimension: Option<usize>,
    pub(crate) token_limit: usize,
    pub(crate) batch_texts: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) calls: usize,
}

impl EmbeddingSettings {
    /// The model, if it runs in this process.
    pub(crate) fn embedded_model(&self) -> Option<EmbeddedModel> {
        let model = self.model.as_deref().filter(|_| self.kind == EmbeddingKind::Embedded)?;
        models::embedded(model, Purpose::Embedding).ok()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EmbeddingKind {
    /// a model in this process
    #[default]
    Embedded,
    /// an Ollama server
    Ollama,
    /// a server that speaks OpenAI's protocol
    Openai,
}

impl EmbeddingKind {
    fn default_base_url(self) -> Option<String> {
        let kind = match self {
            Self::Embedded => ProviderKind::Embedded,
            Self::Ollama => ProviderKind::Ollama,
            Self::Openai => ProviderKind::Openai,
        };
        kind.default_base_url().map(str::to_owned)
    }
}

/// The embedder. All keys but `kind` and `model` are for a server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct EmbeddingTable {
    /// What it is.
    kind: EmbeddingKind,
    /// The model: in this process a name of `wellspring models list` or the path of a sentence-transformers folder
    /// [default: `granite-embedding-30m-english`]; otherwise one of the server's, such as `nomic-embed-text` of Ollama.
    model: Option<String>,
    /// The server's address [default: `http://127.0.0.1:11434` for `"ollama"`, `https://api.openai.com/v1` for
    /// `"openai"`].
    base_url: Option<String>,
    /// The environment variable with the server's key.
    api_key_env: Option<String>,
    /// How long connecting to the server may take.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    connect_seconds: f64,
    /// How long a call may take.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    timeout_seconds: f64,
    /// The HTTP proxy to the server: `http://host` or `https://host`.
    proxy: Option<String>,
    /// The dimension of its vectors [default: that of the first vector].
    #[schemars(range(min = 1, max = 100_000))]
    dimension: Option<u64>,
    /// The longest text that its model takes, in tokens.
    #[schemars(range(min = 16, max = 1_000_000))]
    token_limit: u64,
    /// The most texts in a call.
    #[schemars(range(min = 1, max = 10_000))]
    batch_texts: u64,
    /// The most bytes of text in a call.
    #[schemars(range(min = 1_024, max = 1_073_741_824))]
    batch_bytes: u64,
    /// Concurrent calls for documents; questions do not wait for them.
    #[schemars(range(min = 1, max = 1_000))]
    calls: u64,
}

impl Default for EmbeddingTable {
    fn default() -> Self {
        Self {
            kind: EmbeddingKind::default(),
            model: None,
            base_url: None,
            api_key_env: None,
            connect_seconds: 5.0,
            timeout_seconds: 60.0,
            proxy: None,
            dimension: None,
            token_limit: 512,
            batch_texts: 32,
            batch_bytes: 262_144,
            calls: 2,
        }
    }
}

impl EmbeddingTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> EmbeddingSettings {
        let is_remote = self.kind != EmbeddingKind::Embedded;
        let base_url = validator.base_url("embedding.base_url", self.base_url);
        let api_key_env = validator.variable_name("embedding.api_key_env", self.api_key_env);
        let variable = api_key_env.as_ref().filter(|_| is_remote);
        let api_key = variable.and_then(|name| validator.secret("embedding.api_key_env", name));
        let model = validator.one_line("embedding.model", self.model);
        EmbeddingSettings {
            kind: self.kind,
            dimension: self.dimension.map(|dimension| validator.number("embedding.dimension", dimension)),
            token_limit: validator.number("embedding.token_limit", self.token_limit),
            batch_texts: validator.number("embedding.batch_texts", self.batch_texts),
            batch_bytes: validator.number("embedding.batch_bytes", self.batch_bytes),
            calls: validator.number("embedding.calls", self.calls),
            base_url: base_url.or_else(|| self.kind.default_base_url()),
            model: validator.valid("embedding.model", checked_model(self.kind, model)),
            api_key_env,
            api_key,
            connect: validator.seconds("embedding.connect_seconds", self.connect_seconds),
            timeout: validator.seconds("embedding.timeout_seconds", self.timeout_seconds),
            proxy: validator.url("embedding.proxy", self.proxy, &["http", "https"]),
        }
    }
}

/// A model in this process must be an embedding model, and a server needs one of its own.
fn checked_model(kind: EmbeddingKind, model: Option<String>) -> Result<String, InvalidSetting> {
    if kind == EmbeddingKind::Embedded {
        let name = model.unwrap_or_else(|| models::DEFAULT_EMBEDDER.to_owned());
        return models::embedded(&name, Purpose::Embedding).map(|_| name);
    }
    let name = model.ok_or("it is needed: name the model that the server embeds with")?;
    match models::embedded(&name, Purpose::Embedding) {
        Ok(EmbeddedModel::Known(_)) => Err(format!(
            "{name:?} is a model of this process (embedding.kind = \"embedded\"): name the model that the server \
             embeds with"
        )
        .into()),
        _ => Ok(name),
    }
}
