//! Providers as the settings want them, each of them watched and behind its breaker, in the orders they are asked in.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::Provider;
use engine::Providers;
use models::chat::LlamaProvider;
use providers::{
    BreakerRules, CircuitBreaker, ExtractiveProvider, FallbackProvider, HealthCheckedProvider,
    HttpProviderSettings, OllamaProvider, OpenAiProvider, SilenceLimits,
};

use super::Lasts;
use super::chat::chat_model;
use crate::settings::{ProviderKind, ProviderSettings, Reading, Settings};

/// Those who generate.
pub(super) struct Members {
    /// To be asked.
    pub(super) providers: Providers,
    /// To be looked at from time to time.
    pub(super) watched: Vec<Arc<HealthCheckedProvider>>,
    /// Models in this process that keep what they read of passages.
    pub(super) keeping: Vec<Arc<LlamaProvider>>,
}

pub(super) fn members(settings: &Settings, lasts: Lasts) -> Result<Members, String> {
    let mut members: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
    let (mut watched, mut keeping) = (Vec::new(), Vec::new());
    for (name, own) in &settings.providers {
        let provider = match own.kind {
            ProviderKind::Embedded => {
                let model = Arc::new(chat_model(name, own, settings, lasts));
                keeping.extend((own.reading == Some(Reading::Kept)).then(|| model.clone()));
                model
            }
            _ => provider(name, own)?,
        };
        let provider = Arc::new(HealthCheckedProvider::new(provider, settings.generation.health));
        watched.push(provider.clone());
        members.insert(
            name.clone(),
            Arc::new(CircuitBreaker::new(provider, rules(settings), silence_limits(settings))),
        );
    }
    Ok(Members { providers: in_orders(settings, &members)?, watched, keeping })
}

fn in_orders(
    settings: &Settings,
    members: &BTreeMap<String, Arc<dyn Provider>>,
) -> Result<Providers, String> {
    let generation = &settings.generation;
    // Also a provider that is asked by its name alone is given up when it stays silent.
    let order = |names: &[String]| -> Arc<dyn Provider> {
        let members = names.iter().map(|name| members[name].clone()).collect();
        Arc::new(FallbackProvider::new(members, generation.first_token))
    };
    let named = members.keys().map(|name| (name.clone(), order(std::slice::from_ref(name)))).collect();
    let mut providers = Providers::new(named, order(&generation.providers));
    for owner_order in &generation.orders {
        let added = providers.owner_order(&owner_order.owner, order(&owner_order.providers));
        providers = added.map_err(|error| format!("generation.orders: {error}"))?;
    }
    Ok(providers)
}

fn rules(settings: &Settings) -> BreakerRules {
    let breaker = &settings.breaker;
    BreakerRules {
        failures_in_a_row: breaker.failures_in_a_row,
        failure_share: breaker.failure_share,
        window_requests: breaker.window_requests,
        window_least: breaker.window_least,
        window: breaker.window,
        open: breaker.open,
    }
}

fn silence_limits(settings: &Settings) -> SilenceLimits {
    SilenceLimits { first_token: settings.generation.first_token, stall: settings.generation.stall }
}

/// One that is not in this process.
fn provider(name: &str, own: &ProviderSettings) -> Result<Arc<dyn Provider>, String> {
    let provider: Result<Arc<dyn Provider>, _> = match own.kind {
        ProviderKind::Embedded => unreachable!("it is in this process"),
        ProviderKind::Quotes => return Ok(Arc::new(ExtractiveProvider::new(name))),
        ProviderKind::Ollama => OllamaProvider::new(http(name, own)).map(|provider| Arc::new(provider) as _),
        ProviderKind::Openai => OpenAiProvider::new(http(name, own)).map(|provider| Arc::new(provider) as _),
    };
    provider.map_err(|error| format!("providers.{name}.{error}"))
}

fn http(name: &str, settings: &ProviderSettings) -> HttpProviderSettings {
    HttpProviderSettings {
        name: name.to_owned(),
        base_url: settings.base_url.clone().unwrap_or_default(),
        model: settings.model.clone(),
        api_key: settings.api_key.as_ref().map(|key| key.expose().into()),
        context_window: settings.context_window,
        connect: settings.connect,
        proxy: settings.proxy.as_ref().map(|proxy| proxy.expose().as_str().into()),
    }
}
