//! Settings of who embeds: a model in this process, or a server.

use std::time::Duration;

use ::models::files::Purpose;
use serde::{Deserialize, Serialize};

use super::ProviderKind;
use super::checks::{Checks, SOME_TIME, in_seconds};
use super::models::{self, EmbeddedModel};
use super::secret::{Secret, SecretUrl};

/// `[embedding]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EmbeddingSettings {
    /// Who embeds.
    pub(crate) kind: EmbeddingKind,
    /// The model to ask for; one in this process by its name or folder.
    pub(crate) model: Option<String>,
    /// Where the server is; without a slash at its end.
    pub(crate) base_url: Option<String>,
    /// The environment variable that its key was read from.
    pub(crate) api_key_env: Option<String>,
    /// The key.
    #[serde(skip)]
    pub(crate) api_key: Option<Secret>,
    /// How long connecting may take.
    #[serde(rename = "connect_seconds", serialize_with = "in_seconds")]
    pub(crate) connect: Duration,
    /// How long a call may take.
    #[serde(rename = "timeout_seconds", serialize_with = "in_seconds")]
    pub(crate) timeout: Duration,
    /// The HTTP proxy on the way to it.
    pub(crate) proxy: Option<SecretUrl>,
    /// How many numbers its vectors have; if not given, as many as the first one has.
    pub(crate) dimension: Option<usize>,
    /// How many tokens of a text its model takes.
    pub(crate) token_limit: usize,
    /// How many texts are in a call at most.
    pub(crate) batch_texts: usize,
    /// How many bytes of text are in a call at most.
    pub(crate) batch_bytes: usize,
    /// How many calls are made at once for documents.
    pub(crate) calls: usize,
}

impl EmbeddingSettings {
    /// The model that embeds in this process, if one does.
    pub(crate) fn embedded_model(&self) -> Option<EmbeddedModel> {
        let model = self.model.as_deref().filter(|_| self.kind == EmbeddingKind::Embedded)?;
        models::embedded(model, Purpose::Embedding).ok()
    }
}

/// Who embeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EmbeddingKind {
    /// A model in this process.
    #[default]
    Embedded,
    /// An Ollama server.
    Ollama,
    /// A server that speaks OpenAI's protocol.
    Openai,
}

impl EmbeddingKind {
    fn base_url(self) -> Option<String> {
        let kind = match self {
            Self::Embedded => ProviderKind::Embedded,
            Self::Ollama => ProviderKind::Ollama,
            Self::Openai => ProviderKind::Openai,
        };
        kind.base_url().map(str::to_owned)
    }
}

/// `[embedding]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedEmbedding {
    kind: EmbeddingKind,
    model: Option<String>,
    base_url: Option<String>,
    api_key_env: Option<String>,
    connect_seconds: f64,
    timeout_seconds: f64,
    proxy: Option<String>,
    dimension: Option<u64>,
    token_limit: u64,
    batch_texts: u64,
    batch_bytes: u64,
    calls: u64,
}

impl Default for TypedEmbedding {
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

impl TypedEmbedding {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> EmbeddingSettings {
        let is_remote = self.kind != EmbeddingKind::Embedded;
        let base_url = checks.base_url("embedding.base_url", self.base_url);
        let api_key_env = checks.variable("embedding.api_key_env", self.api_key_env);
        let variable = api_key_env.as_ref().filter(|_| is_remote);
        let api_key = variable.and_then(|name| checks.secret("embedding.api_key_env", name));
        let model = checks.line("embedding.model", self.model);
        let mut number = |key, value, allowed| checks.number(&format!("embedding.{key}"), value, allowed);
        EmbeddingSettings {
            kind: self.kind,
            dimension: self.dimension.map(|dimension| number("dimension", dimension, 1..=100_000)),
            token_limit: number("token_limit", self.token_limit, 16..=1_000_000),
            batch_texts: number("batch_texts", self.batch_texts, 1..=10_000),
            batch_bytes: number("batch_bytes", self.batch_bytes, 1_024..=1 << 30),
            calls: number("calls", self.calls, 1..=1_000),
            base_url: base_url.or_else(|| self.kind.base_url()),
            model: checks.keep("embedding.model", checked_model(self.kind, model)),
            api_key_env,
            api_key,
            connect: checks.seconds("embedding.connect_seconds", self.connect_seconds, SOME_TIME),
            timeout: checks.seconds("embedding.timeout_seconds", self.timeout_seconds, SOME_TIME),
            proxy: checks.url("embedding.proxy", self.proxy, &["http", "https"]),
        }
    }
}

/// The model that is meant, which must be one of those who embed.
fn checked_model(kind: EmbeddingKind, model: Option<String>) -> Result<String, String> {
    if kind == EmbeddingKind::Embedded {
        let name = model.unwrap_or_else(|| models::DEFAULT_EMBEDDER.to_owned());
        return models::embedded(&name, Purpose::Embedding).map(|_| name);
    }
    let name = model.ok_or("it is needed: name the model that the server embeds with")?;
    match models::embedded(&name, Purpose::Embedding) {
        Ok(EmbeddedModel::Known(_)) => Err(format!(
            "{name:?} is a model of this process (embedding.kind = \"embedded\"): name the model that the server embeds with"
        )),
        _ => Ok(name),
    }
}
