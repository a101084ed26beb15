//! `[providers.NAME]`: the providers that generate answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::models::files::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::invalid_setting::InvalidSetting;
use super::models::{self, EmbeddedModel};
use super::secret::{Secret, SecretUrl};
use super::validator::{Validator, in_seconds};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProviderSettings {
    pub(crate) kind: ProviderKind,
    /// Without a slash at its end.
    pub(crate) base_url: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) api_key_env: Option<String>,
    #[serde(skip)]
    pub(crate) api_key: Option<Secret>,
    pub(crate) context_window: usize,
    pub(crate) seed: Option<u64>,
    /// `None` for other kinds than a model in this process.
    pub(crate) reading: Option<Reading>,
    #[serde(rename = "connect_seconds", serialize_with = "in_seconds")]
    pub(crate) connect: Duration,
    pub(crate) proxy: Option<SecretUrl>,
}

impl ProviderSettings {
    /// The model, if it runs in this process.
    pub(crate) fn embedded_model(&self) -> Option<EmbeddedModel> {
        let model = self.model.as_deref().filter(|_| self.kind == ProviderKind::Embedded)?;
        models::embedded(model, Purpose::Chat).ok()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProviderKind {
    /// a model in this process
    Embedded,
    /// a server that speaks Ollama's protocol
    Ollama,
    /// a server that speaks OpenAI's chat completions
    Openai,
    /// no model: quotes the best sentences of the passages; only as the last of an order
    Quotes,
}

impl ProviderKind {
    pub(super) fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::Ollama => Some("http://127.0.0.1:11434"),
            Self::Openai => Some("https://api.openai.com/v1"),
            Self::Embedded | Self::Quotes => None,
        }
    }

    fn default_context_window(self) -> u64 {
        match self {
            Self::Embedded | Self::Ollama => 8_192,
            Self::Openai | Self::Quotes => 32_768,
        }
    }
}

/// How a model in this process prefills the passages of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reading {
    /// each passage by itself, once; its KV cache is kept for later prompts
    #[default]
    Kept,
    /// the whole prompt anew each time
    Whole,
}

/// All tables `[providers.NAME]`.
pub(super) type ProviderTables = BTreeMap<String, ProviderTable>;

/// The default of `[providers]`.
pub(super) fn only_local() -> ProviderTables {
    ProviderTables::from([("local".to_owned(), ProviderTable::default())])
}

/// The providers that generate answers. Without any such table there is `[providers.local]` alone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ProviderTable {
    /// What it is [default: `"ollama"` with a `base_url`, otherwise `"embedded"`].
    kind: Option<ProviderKind>,
    /// The server's address [default: `http://127.0.0.1:11434` for `"ollama"`, `https://api.openai.com/v1` for
    /// `"openai"`].
    base_url: Option<String>,
    /// The model: one of the server's; in this process a name of `wellspring models list` or the path of a GGUF file
    /// [default in this process: `qwen2.5-coder-1.5b-instruct`].
    model: Option<String>,
    /// The environment variable with the server's key.
    api_key_env: Option<String>,
    /// The model's context window, in tokens: prompt and answer together [default: 8192, for `"openai"` 32768].
    #[schemars(range(min = 256, max = 100_000_000))]
    context_window: Option<u64>,
    /// The sampling seed of a model in this process: the same request gets the same answer. Without one each answer has
    /// its own.
    #[schemars(range(min = 0))]
    seed: Option<u64>,
    /// How a model in this process prefills passages [default: `"kept"`].
    reading: Option<Reading>,
    /// How long connecting to the server may take.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    connect_seconds: f64,
    /// The HTTP proxy to the server: `http://host` or `https://host`.
    proxy: Option<String>,
}

impl Default for ProviderTable {
    fn default() -> Self {
        Self {
            kind: None,
            base_url: None,
            model: None,
            api_key_env: None,
            context_window: None,
            seed: None,
            reading: None,
            connect_seconds: 5.0,
            proxy: None,
        }
    }
}

/// Validates every provider.
pub(super) fn resolve(
    validator: &mut Validator<'_>,
    tables: ProviderTables,
    used_providers: &BTreeSet<String>,
) -> BTreeMap<String, ProviderSettings> {
    let mut resolved = BTreeMap::new();
    for (name, table) in tables {
        check_name(validator, &name);
        let settings = table.resolve(validator, &name, used_providers.contains(&name));
        resolved.insert(name, settings);
    }
    resolved
}

/// A name must fit into `NAME/MODEL`, as clients write it, and into the name of an environment variable.
fn check_name(validator: &mut Validator<'_>, name: &str) {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if name.is_empty() || !name.chars().all(allowed) {
        let message = format!("{name:?} is not a name for a provider; allowed are letters, digits, - and _");
        validator.reject("providers", message);
    }
}

impl ProviderTable {
    /// The kind, or what the other keys imply: a provider with an address is an Ollama server.
    pub(super) fn kind(&self) -> ProviderKind {
        let implied = if self.base_url.is_some() { ProviderKind::Ollama } else { ProviderKind::Embedded };
        self.kind.unwrap_or(implied)
    }

    fn resolve(self, validator: &mut Validator<'_>, name: &str, is_used: bool) -> ProviderSettings {
        let key = |part: &str| format!("providers.{name}.{part}");
        let kind = self.kind();
        let base_url = validator.base_url(&key("base_url"), self.base_url);
        if base_url.is_some() && kind.default_base_url().is_none() {
            let message =
                "only a server has an address: leave it out, or set kind to \"ollama\" or \"openai\"";
            validator.reject(&key("base_url"), message);
        }
        let api_key_env = validator.variable_name(&key("api_key_env"), self.api_key_env);
        // A provider outside of all orders may lack its key.
        let needed = |name: &&String| is_used || validator.environment.contains_key(*name);
        let variable = api_key_env.as_ref().filter(needed);
        let api_key = variable.and_then(|name| validator.secret(&key("api_key_env"), name));
        for (part, is_set) in [("seed", self.seed.is_some()), ("reading", self.reading.is_some())] {
            if is_set && kind != ProviderKind::Embedded {
                let message =
                    "only a model in this process has one: leave it out, or set kind to \"embedded\"";
                validator.reject(&key(part), message);
            }
        }
        let window = self.context_window.unwrap_or(kind.default_context_window());
        let model = validator.one_line(&key("model"), self.model);
        ProviderSettings {
            kind,
            base_url: base_url.or_else(|| kind.default_base_url().map(str::to_owned)),
            model: validator.valid(&key("model"), checked_model(kind, model)).flatten(),
            api_key_env,
            api_key,
            context_window: validator.number(&key("context_window"), window),
            seed: self.seed,
            reading: (kind == ProviderKind::Embedded).then(|| self.reading.unwrap_or_default()),
            connect: validator.seconds(&key("connect_seconds"), self.connect_seconds),
            proxy: validator.url(&key("proxy"), self.proxy, &["http", "https"]),
        }
    }
}

/// A model in this process must be known, or a path.
fn checked_model(kind: ProviderKind, model: Option<String>) -> Result<Option<String>, InvalidSetting> {
    if kind != ProviderKind::Embedded {
        return Ok(model);
    }
    let name = model.unwrap_or_else(|| models::DEFAULT_CHAT.to_owned());
    match models::embedded(&name, Purpose::Chat) {
        Ok(_) => Ok(Some(name)),
        Err(why) => {
            Err(format!("{why}; if it is the model of a server, set kind to \"ollama\" or \"openai\"").into())
        }
    }
}
