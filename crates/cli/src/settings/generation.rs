//! Settings of answers: whom to ask in which order, and the bounds of an answer.

use std::collections::BTreeSet;
use std::time::Duration;

use globset::Glob;
use serde::{Deserialize, Serialize};

use super::ProviderKind;
use super::checks::{Checks, SOME_TIME, in_seconds, quoted};
use super::providers::TypedProviders;

/// `[generation]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GenerationSettings {
    /// Who is asked, in this order, until the first token.
    pub(crate) providers: Vec<String>,
    /// How long a provider may be silent before its first token.
    #[serde(rename = "first_token_seconds", serialize_with = "in_seconds")]
    pub(crate) first_token: Duration,
    /// How long it may be silent afterwards.
    #[serde(rename = "stall_seconds", serialize_with = "in_seconds")]
    pub(crate) stall: Duration,
    /// How long an answer may take.
    #[serde(rename = "total_seconds", serialize_with = "in_seconds")]
    pub(crate) total: Duration,
    /// How often providers are asked whether they would answer.
    #[serde(rename = "health_seconds", serialize_with = "in_seconds")]
    pub(crate) health: Duration,
    /// How many tokens an answer may have.
    pub(crate) max_tokens: u32,
    /// 0 is the most likely answer.
    pub(crate) temperature: f32,
    /// How many tokens the passages in a prompt may have in all.
    pub(crate) context_tokens: usize,
    /// Passages whose cosine has less than this share of the best one's are not given to the model.
    pub(crate) least_share: f64,
    /// What happens when no passage is found.
    pub(crate) when_nothing_found: NothingFoundPolicy,
    /// How a question that goes on from an earlier one is made into one that stands alone.
    pub(crate) rewriting: RewritingKind,
    /// Other orders for some sessions; the first that matches holds.
    pub(crate) orders: Vec<OwnerOrder>,
}

/// `[[generation.orders]]`: whom to ask in the sessions of some owners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OwnerOrder {
    /// A glob over the session's owner.
    pub(crate) owner: String,
    /// Who is asked, in this order.
    pub(crate) providers: Vec<String>,
}

/// What happens when no passage is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NothingFoundPolicy {
    /// What the dialect does by itself.
    #[default]
    Dialect,
    /// The model is asked and told so.
    Answer,
    /// A fixed sentence says so, and no model is asked.
    SaySo,
}

/// How a question that goes on from an earlier one is made into one that stands alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RewritingKind {
    /// What it goes on from is added to what is looked for.
    #[default]
    Rule,
    /// The model rewrites it, in a round of its own.
    Model,
    /// It is looked for as it is.
    Off,
}

/// `[generation]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedGeneration {
    providers: Vec<String>,
    first_token_seconds: f64,
    stall_seconds: f64,
    total_seconds: f64,
    health_seconds: f64,
    max_tokens: u64,
    temperature: f64,
    context_tokens: u64,
    least_share: f64,
    when_nothing_found: NothingFoundPolicy,
    rewriting: RewritingKind,
    orders: Vec<TypedOrder>,
}

/// `[[generation.orders]]` as typed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TypedOrder {
    owner: Option<String>,
    providers: Vec<String>,
}

impl Default for TypedGeneration {
    fn default() -> Self {
        Self {
            providers: vec!["local".to_owned()],
            first_token_seconds: 60.0,
            stall_seconds: 30.0,
            total_seconds: 600.0,
            health_seconds: 10.0,
            max_tokens: 2048,
            temperature: 0.0,
            context_tokens: 700,
            least_share: 0.85,
            when_nothing_found: NothingFoundPolicy::default(),
            rewriting: RewritingKind::default(),
            orders: Vec::new(),
        }
    }
}

impl TypedGeneration {
    /// Every provider that some order names.
    pub(super) fn named_providers(&self) -> BTreeSet<String> {
        self.orders.iter().flat_map(|order| &order.providers).chain(&self.providers).cloned().collect()
    }

    pub(super) fn resolve(self, checks: &mut Checks<'_>, configured: &TypedProviders) -> GenerationSettings {
        check_order(checks, "generation.providers", &self.providers, configured);
        let owners = self.orders.iter().filter_map(|order| order.owner.as_deref());
        checks.distinct("generation.orders", owners);
        let orders = (self.orders.into_iter().enumerate())
            .map(|(index, order)| order.resolve(checks, &format!("generation.orders[{index}]"), configured))
            .collect();
        let mut seconds = |key, value| checks.seconds(&format!("generation.{key}"), value, SOME_TIME);
        GenerationSettings {
            providers: self.providers,
            first_token: seconds("first_token_seconds", self.first_token_seconds),
            stall: seconds("stall_seconds", self.stall_seconds),
            total: seconds("total_seconds", self.total_seconds),
            health: seconds("health_seconds", self.health_seconds),
            max_tokens: checks.number("generation.max_tokens", self.max_tokens, 1..=1_000_000),
            #[expect(clippy::cast_possible_truncation, reason = "it is between 0 and 2")]
            temperature: checks.decimal("generation.temperature", self.temperature, 0.0..=2.0) as f32,
            context_tokens: checks.number("generation.context_tokens", self.context_tokens, 50..=1_000_000),
            least_share: checks.decimal("generation.least_share", self.least_share, 0.0..=1.0),
            when_nothing_found: self.when_nothing_found,
            rewriting: self.rewriting,
            orders,
        }
    }
}

impl TypedOrder {
    fn resolve(self, checks: &mut Checks<'_>, key: &str, configured: &TypedProviders) -> OwnerOrder {
        let owner = match self.owner {
            Some(owner) => checks.keep(&format!("{key}.owner"), check_glob(owner)),
            None => checks.keep(key, Err(format!("it has no owner; allowed is {OWNER_ALLOWED}"))),
        };
        check_order(checks, &format!("{key}.providers"), &self.providers, configured);
        OwnerOrder { owner: owner.unwrap_or_default(), providers: self.providers }
    }
}

const OWNER_ALLOWED: &str =
    "the name of an owner, in which * and ? stand for any letters, such as \"acme/*\"";

fn check_glob(glob: String) -> Result<String, String> {
    match Glob::new(&glob) {
        Ok(_) if glob.is_empty() => Err(format!("it is empty; allowed is {OWNER_ALLOWED}")),
        Ok(_) => Ok(glob),
        Err(error) => Err(format!("{glob:?} is not a glob ({}); allowed is {OWNER_ALLOWED}", error.kind())),
    }
}

/// An order names configured providers, each once, and quotes only where no model could be asked after them.
fn check_order(checks: &mut Checks<'_>, key: &str, names: &[String], configured: &TypedProviders) {
    let quotes = |name: &&String| configured.get(*name).is_some_and(|it| it.kind() == ProviderKind::Quotes);
    if let Some(early) = names.iter().rev().skip(1).find(quotes) {
        let message =
            format!("{early:?} quotes and always answers, so nobody after it would be asked: put it last");
        checks.refuse(key, message);
    }
    let unknown = names.iter().find(|name| !configured.contains_key(*name));
    let wrong = match unknown {
        Some(unknown) => format!("there is no provider {unknown:?}"),
        None if names.is_empty() => "no provider is named".to_owned(),
        None => return checks.distinct(key, names.iter().map(String::as_str)),
    };
    let allowed = match configured.first_key_value() {
        None => "none is configured by a table [providers.NAME]".to_owned(),
        Some((first, _)) => {
            let names = quoted(configured.keys().map(String::as_str));
            format!("configured are {names}, so write for example providers = [{first:?}]")
        }
    };
    checks.refuse(key, format!("{wrong}; {allowed}"));
}
