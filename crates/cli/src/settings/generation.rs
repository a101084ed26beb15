//! `[generation]`: which providers answer in which order, and the bounds of an answer.

use std::collections::BTreeSet;
use std::time::Duration;

use globset::Glob;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProviderKind;
use super::invalid_setting::InvalidSetting;
use super::providers::ProviderTables;
use super::validator::{Validator, in_seconds, quoted};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GenerationSettings {
    pub(crate) providers: Vec<String>,
    #[serde(rename = "first_token_seconds", serialize_with = "in_seconds")]
    pub(crate) first_token: Duration,
    #[serde(rename = "stall_seconds", serialize_with = "in_seconds")]
    pub(crate) stall: Duration,
    #[serde(rename = "total_seconds", serialize_with = "in_seconds")]
    pub(crate) total: Duration,
    #[serde(rename = "health_seconds", serialize_with = "in_seconds")]
    pub(crate) health: Duration,
    pub(crate) max_tokens: u32,
    pub(crate) temperature: f32,
    pub(crate) context_tokens: usize,
    pub(crate) least_share: f64,
    pub(crate) when_nothing_found: NothingFoundPolicy,
    pub(crate) rewriting: RewritingKind,
    pub(crate) orders: Vec<OwnerOrder>,
}

/// The order of providers for the sessions of some owners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OwnerOrder {
    /// A glob over the session's owner.
    pub(crate) owner: String,
    pub(crate) providers: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NothingFoundPolicy {
    /// each dialect's own behaviour
    #[default]
    Dialect,
    /// ask the model, and say in the prompt that nothing was found
    Answer,
    /// answer with a fixed sentence, without a model
    SaySo,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RewritingKind {
    /// add the subject of the earlier question to the search query
    #[default]
    Rule,
    /// have the model rewrite the question first: one more call, and a model of more than 1B parameters
    Model,
    /// search for the question as typed
    Off,
}

/// Which providers answer, and the bounds of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct GenerationTable {
    /// The providers, by their names in `[providers.NAME]`. The next one is tried when one fails before its first token.
    providers: Vec<String>,
    /// How long a provider may be silent before its first token; models in this process load in that time.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    first_token_seconds: f64,
    /// How long a provider may be silent after its first token.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    stall_seconds: f64,
    /// How long an answer may take.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    total_seconds: f64,
    /// The interval of the providers' health checks.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    health_seconds: f64,
    /// The longest answer, in tokens.
    #[schemars(range(min = 1, max = 1_000_000))]
    max_tokens: u64,
    /// The sampling temperature. 0 takes the most likely token each time.
    #[schemars(range(min = 0, max = 2))]
    temperature: f64,
    /// The token budget of the passages in a prompt. Longer passages are cut to the sentences that matter most; with
    /// `reading = "kept"` they stay whole, as many as fit. The default suits small models; give larger ones thousands.
    #[schemars(range(min = 50, max = 1_000_000))]
    context_tokens: u64,
    /// The relevance cutoff: passages whose cosine is below this share of the best one's stay out of the prompt. 0 admits
    /// every passage that fits.
    #[schemars(range(min = 0, max = 1))]
    least_share: f64,
    /// What happens when no passage is found.
    when_nothing_found: NothingFoundPolicy,
    /// How a follow-up question ("and how do I undo that?") is made into a search query that stands alone.
    rewriting: RewritingKind,
    /// Other orders of providers for some sessions; the first one that matches the session's owner applies.
    orders: Vec<OrderTable>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OrderTable {
    /// The owner that this order is for; `*` and `?` stand for any letters, as in `"acme/*"`.
    owner: Option<String>,
    /// The providers, as in `generation.providers`.
    providers: Vec<String>,
}

impl Default for GenerationTable {
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

impl GenerationTable {
    /// Every provider in any of the orders.
    pub(super) fn named_providers(&self) -> BTreeSet<String> {
        self.orders.iter().flat_map(|order| &order.providers).chain(&self.providers).cloned().collect()
    }

    pub(super) fn resolve(
        self,
        validator: &mut Validator<'_>,
        configured: &ProviderTables,
    ) -> GenerationSettings {
        check_order(validator, "generation.providers", &self.providers, configured);
        let owners = self.orders.iter().filter_map(|order| order.owner.as_deref());
        validator.distinct("generation.orders", owners);
        let orders = (self.orders.into_iter().enumerate())
            .map(|(index, order)| {
                order.resolve(validator, &format!("generation.orders[{index}]"), configured)
            })
            .collect();
        GenerationSettings {
            providers: self.providers,
            first_token: validator.seconds("generation.first_token_seconds", self.first_token_seconds),
            stall: validator.seconds("generation.stall_seconds", self.stall_seconds),
            total: validator.seconds("generation.total_seconds", self.total_seconds),
            health: validator.seconds("generation.health_seconds", self.health_seconds),
            max_tokens: validator.number("generation.max_tokens", self.max_tokens),
            #[expect(clippy::cast_possible_truncation, reason = "it is between 0 and 2")]
            temperature: validator.decimal("generation.temperature", self.temperature) as f32,
            context_tokens: validator.number("generation.context_tokens", self.context_tokens),
            least_share: validator.decimal("generation.least_share", self.least_share),
            when_nothing_found: self.when_nothing_found,
            rewriting: self.rewriting,
            orders,
        }
    }
}

impl OrderTable {
    fn resolve(self, validator: &mut Validator<'_>, key: &str, configured: &ProviderTables) -> OwnerOrder {
        let owner = match self.owner {
            Some(owner) => validator.valid(&format!("{key}.owner"), checked_glob(owner)),
            None => {
                validator.reject(key, format!("it has no owner; allowed is {OWNER_ALLOWED}"));
                None
            }
        };
        check_order(validator, &format!("{key}.providers"), &self.providers, configured);
        OwnerOrder { owner: owner.unwrap_or_default(), providers: self.providers }
    }
}

const OWNER_ALLOWED: &str =
    "the name of an owner, in which * and ? stand for any letters, such as \"acme/*\"";

fn checked_glob(glob: String) -> Result<String, InvalidSetting> {
    match Glob::new(&glob) {
        Ok(_) if glob.is_empty() => Err(format!("it is empty; allowed is {OWNER_ALLOWED}").into()),
        Ok(_) => Ok(glob),
        Err(error) => {
            Err(format!("{glob:?} is not a glob ({}); allowed is {OWNER_ALLOWED}", error.kind()).into())
        }
    }
}

/// An order names configured providers, each once. `quotes` always answers, so it is allowed in the last place only.
fn check_order(validator: &mut Validator<'_>, key: &str, names: &[String], configured: &ProviderTables) {
    let quotes = |name: &&String| configured.get(*name).is_some_and(|it| it.kind() == ProviderKind::Quotes);
    if let Some(early) = names.iter().rev().skip(1).find(quotes) {
        let message = format!(
            "{early:?} quotes and always answers, so no provider after it is ever asked: put it last"
        );
        validator.reject(key, message);
    }
    let unknown = names.iter().find(|name| !configured.contains_key(*name));
    let wrong = match unknown {
        Some(unknown) => format!("there is no provider {unknown:?}"),
        None if names.is_empty() => "no provider is named".to_owned(),
        None => return validator.distinct(key, names.iter().map(String::as_str)),
    };
    let allowed = match configured.first_key_value() {
        None => "none is configured by a table [providers.NAME]".to_owned(),
        Some((first, _)) => {
            let names = quoted(configured.keys().map(String::as_str));
            format!("configured are {names}, so write for example providers = [{first:?}]")
        }
    };
    validator.reject(key, format!("{wrong}; {allowed}"));
}
