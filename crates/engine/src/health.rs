//! Health of the providers and of storage.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Failure, ProviderStatus, StorageError, StorageErrorKind};
use futures::future::{join, join_all};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::Engine;

/// How long a result of the providers' health checks is reused, so that frequent health requests cost them
/// nothing.
const CACHE_TTL: Duration = Duration::from_secs(2);

/// Upper bound on the health check of storage.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of each configured provider's health check, by the provider's name.
pub type ProviderHealth = BTreeMap<String, Result<(), Failure>>;

/// The last result of the providers' health checks.
#[derive(Default)]
pub(crate) struct HealthCache {
    last: Mutex<Option<(Instant, ProviderChecks)>>,
}

#[derive(Clone)]
struct ProviderChecks {
    named: ProviderHealth,
    default_order: Result<(), Failure>,
}

impl Engine {
    /// Checks each configured provider. Results are at most two seconds old.
    pub async fn provider_health(&self) -> ProviderHealth {
        self.check_providers().await.named
    }

    /// Checks the default order, which answers prompts that name no provider: it is healthy if one of its
    /// providers is. The result is at most two seconds old; the status is current.
    pub async fn default_order_health(&self) -> (Result<(), Failure>, ProviderStatus) {
        (self.check_providers().await.default_order, self.shared.providers.default_order().status())
    }

    /// The status of each configured provider by name, without a call to any.
    pub fn provider_statuses(&self) -> BTreeMap<String, ProviderStatus> {
        let named = self.shared.providers.named().iter();
        named.map(|(name, provider)| (name.clone(), provider.status())).collect()
    }

    /// Checks whether new prompts could be stored now. Fails after two seconds without an answer.
    pub async fn storage_health(&self) -> Result<(), StorageError> {
        let health = timeout(STORAGE_TIMEOUT, self.shared.ports.journal.health()).await;
        health.unwrap_or_else(|_| {
            let seconds = STORAGE_TIMEOUT.as_secs();
            Err(StorageError::new(
                StorageErrorKind::Busy,
                format!("storage does not answer within {seconds} s"),
            ))
        })
    }

    /// Runs the health checks, unless the cached result is fresh. The lock is held meanwhile, so that
    /// concurrent health requests share one round of checks.
    async fn check_providers(&self) -> ProviderChecks {
        let mut last = self.shared.health.last.lock().await;
        if let Some((_, checks)) = last.as_ref().filter(|(at, _)| at.elapsed() < CACHE_TTL) {
            return checks.clone();
        }
        let providers = &self.shared.providers;
        let named = providers.named();
        let results = join_all(named.values().map(|provider| provider.health()));
        let (results, default_order) = join(results, providers.default_order().health()).await;
        let checks = ProviderChecks { named: named.keys().cloned().zip(results).collect(), default_order };
        *last = Some((Instant::now(), checks.clone()));
        checks
    }
}
