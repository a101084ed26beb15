//! The configured providers, each with health checks and a circuit breaker, in the orders that settings name.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::providers::{
    BreakerRules, CircuitBreaker, ExtractiveProvider, FallbackProvider, HealthCheckedProvider,
    HttpProviderSettings, InvalidSettings, OllamaProvider, OpenAiProvider, SilenceLimits,
};
use domain::Provider;
use engine::Providers;
use models::chat::LlamaProvider;

use super::chat_model::chat_model;
use super::{ProcessLifetime, WiringError};
use crate::settings::{ProviderKind, ProviderSettings, Reading, Settings};

pub(super) struct WiredProviders {
    pub(super) providers: Providers,
    /// Those whose health is checked in the background: all of them.
    pub(super) watched: Vec<Arc<HealthCheckedProvider>>,
    /// The models in this process with a prefix cache.
    pub(super) caching: Vec<Arc<LlamaProvider>>,
}

pub(super) fn wire_providers(
    settings: &Settings,
    lifetime: ProcessLifetime,
) -> Result<WiredProviders, WiringError> {
    let mut named: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
    let (mut watched, mut caching) = (Vec::new(), Vec::new());
    for (name, own) in &settings.providers {
        let provider: Arc<dyn Provider> = match own.kind {
            ProviderKind::Embedded => {
                let model = Arc::new(chat_model(name, own, settings, lifetime));
                caching.extend((own.reading == Some(Reading::Kept)).then(|| model.clone()));
                model
            }
            ProviderKind::Quotes => Arc::new(ExtractiveProvider::new(name.as_str())),
            ProviderKind::Ollama => Arc::new(OllamaProvider::new(http(name, own)).map_err(invalid(name))?),
            ProviderKind::Openai => Arc::new(OpenAiProvider::new(http(name, own)).map_err(invalid(name))?),
        };
        let provider = Arc::new(HealthCheckedProvider::new(provider, settings.generation.health));
        watched.push(provider.clone());
        named.insert(
            name.clone(),
            Arc::new(CircuitBreaker::new(provider, rules(settings), silence_limits(settings))),
        );
    }
    Ok(WiredProviders { providers: in_orders(settings, &named)?, watched, caching })
}

fn invalid(name: &str) -> impl FnOnce(InvalidSettings) -> WiringError {
    |source| WiringError::Provider { name: name.to_owned(), source }
}

fn in_orders(
    settings: &Settings,
    named: &BTreeMap<String, Arc<dyn Provider>>,
) -> Result<Providers, WiringError> {
    let generation = &settings.generation;
    let order = |names: &[String]| -> Arc<dyn Provider> {
        let providers = names.iter().map(|name| named[name].clone()).collect();
        Arc::new(FallbackProvider::new(providers, generation.first_token))
    };
    // A provider that is asked by its name is an order of one, so that the first-token timeout applies to it too.
    let alone = named.keys().map(|name| (name.clone(), order(std::slice::from_ref(name)))).collect();
    let mut providers = Providers::new(alone, order(&generation.providers));
    for owner_order in &generation.orders {
        providers = providers.owner_order(&owner_order.owner, order(&owner_order.providers))?;
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
