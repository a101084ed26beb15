//! Settings of those who generate.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::models::files::Purpose;
use serde::{Deserialize, Serialize};

use super::checks::{Checks, SOME_TIME, in_seconds};
use super::models::{self, EmbeddedModel};
use super::secret::{Secret, SecretUrl};

/// `[providers.NAME]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProviderSettings {
    /// Who it is.
    pub(crate) kind: ProviderKind,
    /// Where the server is; without a slash at its end.
    pub(crate) base_url: Option<String>,
    /// The model to ask for; one in this process by its name or path.
    pub(crate) model: Option<String>,
    /// The environment variable that its key was read from.
    pub(crate) api_key_env: Option<String>,
    /// The key.
    #[serde(skip)]
    pub(crate) api_key: Option<Secret>,
    /// How many tokens its model can take in and give out together.
    pub(crate) context_window: usize,
    /// What chance is taken from when a model in this process writes; without it, it is another one each time.
    pub(crate) seed: Option<u64>,
    /// How a model in this process reads passages; nothing for others.
    pub(crate) reading: Option<Reading>,
    /// How long connecting may take.
    #[serde(rename = "connect_seconds", serialize_with = "in_seconds")]
    pub(crate) connect: Duration,
    /// The HTTP proxy on the way to it.
    pub(crate) proxy: Option<SecretUrl>,
}

impl ProviderSettings {
    /// The model that answers in this process, if one does.
    pub(crate) fn embedded_model(&self) -> Option<EmbeddedModel> {
        let model = self.model.as_deref().filter(|_| self.kind == ProviderKind::Embedded)?;
        models::embedded(model, Purpose::Chat).ok()
    }
}

/// Who a provider is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProviderKind {
    /// A model in this process.
    Embedded,
    /// A server that speaks Ollama's own protocol.
    Ollama,
    /// A server that speaks OpenAI's chat completions, as many do.
    Openai,
    /// No model: the passages are quoted.
    Quotes,
}

impl ProviderKind {
    /// Where such a server is if nothing else is said.
    pub(super) fn base_url(self) -> Option<&'static str> {
        match self {
            Self::Ollama => Some("http://127.0.0.1:11434"),
            Self::Openai => Some("https://api.openai.com/v1"),
            Self::Embedded | Self::Quotes => None,
        }
    }

    fn context_window(self) -> u64 {
        match self {
            Self::Embedded | Self::Ollama => 8_192,
            Self::Openai | Self::Quotes => 32_768,
        }
    }
}

/// How a model in this process reads passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reading {
    /// One by one; what it has read is kept for later prompts.
    #[default]
    Kept,
    /// As part of the whole prompt, anew in each.
    Whole,
}

/// `[providers]` as typed.
pub(super) type TypedProviders = BTreeMap<String, TypedProvider>;

/// What is there if no provider is configured.
pub(super) fn only_local() -> TypedProviders {
    TypedProviders::from([("local".to_owned(), TypedProvider::default())])
}

/// `[providers.NAME]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedProvider {
    kind: Option<ProviderKind>,
    base_url: Option<String>,
    model: Option<String>,
    api_key_env: Option<String>,
    context_window: Option<u64>,
    seed: Option<u64>,
    reading: Option<Reading>,
    connect_seconds: f64,
    proxy: Option<String>,
}

impl Default for TypedProvider {
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

/// The providers that can be asked.
pub(super) fn resolve(
    checks: &mut Checks<'_>,
    typed: TypedProviders,
    in_an_order: &BTreeSet<String>,
) -> BTreeMap<String, ProviderSettings> {
    let mut resolved = BTreeMap::new();
    for (name, provider) in typed {
        check_name(checks, &name);
        let settings = provider.resolve(checks, &name, in_an_order.contains(&name));
        resolved.insert(name, settings);
    }
    resolved
}

/// Clients write `NAME/MODEL`, and the environment has names in its variables.
fn check_name(checks: &mut Checks<'_>, name: &str) {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if name.is_empty() || !name.chars().all(allowed) {
        let message = format!("{name:?} is not a name for a provider; allowed are letters, digits, - and _");
        checks.refuse("providers", message);
    }
}

impl TypedProvider {
    /// Who it is. One that has an address and does not say is an Ollama server.
    pub(super) fn kind(&self) -> ProviderKind {
        let otherwise = if self.base_url.is_some() { ProviderKind::Ollama } else { ProviderKind::Embedded };
        self.kind.unwrap_or(otherwise)
    }

    fn resolve(self, checks: &mut Checks<'_>, name: &str, in_an_order: bool) -> ProviderSettings {
        let key = |part: &str| format!("providers.{name}.{part}");
        let kind = self.kind();
        let base_url = checks.base_url(&key("base_url"), self.base_url);
        if base_url.is_some() && kind.base_url().is_none() {
            let message =
                "only a server has an address: leave it out, or set kind to \"ollama\" or \"openai\"";
            checks.refuse(&key("base_url"), message.to_owned());
        }
        let api_key_env = checks.variable(&key("api_key_env"), self.api_key_env);
        let needed = |name: &&String| in_an_order || checks.environment.contains_key(*name);
        let variable = api_key_env.as_ref().filter(needed);
        let api_key = variable.and_then(|name| checks.secret(&key("api_key_env"), name));
        for (part, is_set) in [("seed", self.seed.is_some()), ("reading", self.reading.is_some())] {
            if is_set && kind != ProviderKind::Embedded {
                let message =
                    "only a model in this process has one: leave it out, or set kind to \"embedded\"";
                checks.refuse(&key(part), message.to_owned());
            }
        }
        let window = self.context_window.unwrap_or(kind.context_window());
        let model = checks.line(&key("model"), self.model);
        ProviderSettings {
            kind,
            base_url: base_url.or_else(|| kind.base_url().map(str::to_owned)),
            model: checks.keep(&key("model"), checked_model(kind, model)).flatten(),
            api_key_env,
            api_key,
            context_window: checks.number(&key("context_window"), window, 256..=100_000_000),
            seed: self.seed,
            reading: (kind == ProviderKind::Embedded).then(|| self.reading.unwrap_or_default()),
            connect: checks.seconds(&key("connect_seconds"), self.connect_seconds, SOME_TIME),
            proxy: checks.url(&key("proxy"), self.proxy, &["http", "https"]),
        }
    }
}

/// The model that is meant; one of this process must be known, or a path.
fn checked_model(kind: ProviderKind, model: Option<String>) -> Result<Option<String>, String> {
    if kind != ProviderKind::Embedded {
        return Ok(model);
    }
    let name = model.unwrap_or_else(|| models::DEFAULT_CHAT.to_owned());
    let known = models::embedded(&name, Purpose::Chat);
    let hint = "; if it is the model of a server, set kind to \"ollama\" or \"openai\"";
    known.map_err(|message| message + hint).map(|_| Some(name))
}
