//! Settings of those who generate.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checks::{Checks, SOME_TIME, in_seconds};
use super::secret::{Secret, SecretUrl};

/// `[providers.NAME]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProviderSettings {
    /// Which protocol it speaks.
    pub(crate) kind: ProviderKind,
    /// Where it is; without a slash at its end.
    pub(crate) base_url: String,
    /// The model to ask for.
    pub(crate) model: Option<String>,
    /// The environment variable that its key was read from.
    pub(crate) api_key_env: Option<String>,
    /// The key.
    #[serde(skip)]
    pub(crate) api_key: Option<Secret>,
    /// How many tokens its model can take in and give out together.
    pub(crate) context_window: usize,
    /// How long connecting may take.
    #[serde(rename = "connect_seconds", serialize_with = "in_seconds")]
    pub(crate) connect: Duration,
    /// The HTTP proxy on the way to it.
    pub(crate) proxy: Option<SecretUrl>,
}

/// Which protocol a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProviderKind {
    /// Ollama's own.
    Ollama,
    /// OpenAI's chat completions, which many servers speak.
    Openai,
}

impl ProviderKind {
    /// Where such a server is if nothing else is said.
    pub(super) fn base_url(self) -> &'static str {
        match self {
            Self::Ollama => "http://127.0.0.1:11434",
            Self::Openai => "https://api.openai.com/v1",
        }
    }

    fn context_window(self) -> u64 {
        match self {
            Self::Ollama => 8_192,
            Self::Openai => 32_768,
        }
    }
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
    kind: TypedKind,
    base_url: Option<String>,
    model: Option<String>,
    api_key_env: Option<String>,
    context_window: Option<u64>,
    connect_seconds: f64,
    proxy: Option<String>,
}

impl Default for TypedProvider {
    fn default() -> Self {
        Self {
            kind: TypedKind::Ollama,
            base_url: None,
            model: None,
            api_key_env: None,
            context_window: None,
            connect_seconds: 5.0,
            proxy: None,
        }
    }
}

/// Every kind that may be typed, built or not.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TypedKind {
    Embedded,
    Ollama,
    Openai,
    Quotes,
}

impl TypedKind {
    /// The kind, if it is built.
    fn built(self) -> Result<ProviderKind, String> {
        let name = match self {
            Self::Ollama => return Ok(ProviderKind::Ollama),
            Self::Openai => return Ok(ProviderKind::Openai),
            Self::Embedded => "embedded",
            Self::Quotes => "quotes",
        };
        Err(format!("{name:?} is not built yet; allowed are \"ollama\", \"openai\""))
    }
}

/// The providers that can be asked. One of a kind that is not built yet stops the start only if an order
/// names it; else it is left out.
pub(super) fn resolve(
    checks: &mut Checks<'_>,
    typed: TypedProviders,
    in_an_order: &BTreeSet<String>,
) -> BTreeMap<String, ProviderSettings> {
    let mut resolved = BTreeMap::new();
    for (name, provider) in typed {
        check_name(checks, &name);
        if let Some(settings) = provider.resolve(checks, &name, in_an_order.contains(&name)) {
            resolved.insert(name, settings);
        }
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
    fn resolve(self, checks: &mut Checks<'_>, name: &str, in_an_order: bool) -> Option<ProviderSettings> {
        let key = |part: &str| format!("providers.{name}.{part}");
        let kind = match self.kind.built() {
            Err(_) if !in_an_order => return None,
            kind => checks.keep(&key("kind"), kind)?,
        };
        let base_url = checks.base_url(&key("base_url"), self.base_url);
        let api_key_env = checks.variable(&key("api_key_env"), self.api_key_env);
        let needed = |name: &&String| in_an_order || checks.environment.contains_key(*name);
        let variable = api_key_env.as_ref().filter(needed);
        let api_key = variable.and_then(|name| checks.secret(&key("api_key_env"), name));
        let window = self.context_window.unwrap_or(kind.context_window());
        Some(ProviderSettings {
            kind,
            base_url: base_url.unwrap_or_else(|| kind.base_url().to_owned()),
            model: checks.line(&key("model"), self.model),
            api_key_env,
            api_key,
            context_window: checks.number(&key("context_window"), window, 256..=100_000_000),
            connect: checks.seconds(&key("connect_seconds"), self.connect_seconds, SOME_TIME),
            proxy: checks.url(&key("proxy"), self.proxy, &["http", "https"]),
        })
    }
}
