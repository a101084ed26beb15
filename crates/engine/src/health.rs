//! Whether the configured providers would answer, and what they answer could be kept.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Failure, ProviderStatus, StorageError, Timestamp};
use futures::future::{join, join_all};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::Engine;

/// How long an answer of the providers is good for, so that being asked often costs them nothing.
const FRESH: Duration = Duration::from_secs(2);

/// How long storage may take to show that it works.
const STORAGE: Duration = Duration::from_secs(2);

/// Each configured provider by name, and why it would not answer if it would not.
pub type ProviderHealth = BTreeMap<String, Result<(), Failure>>;

/// What was last heard of the providers.
#[derive(Default)]
pub(crate) struct Health {
    last: Mutex<Option<(Instant, Heard)>>,
}

/// What the providers said of themselves, and what that makes of the order in which they are asked.
#[derive(Clone)]
struct Heard {
    named: ProviderHealth,
    order: Result<(), Failure>,
}

impl Engine {
    /// Whether each of the providers would answer.
    pub async fn provider_health(&self) -> ProviderHealth {
        self.hear().await.named
    }

    /// How those stand together who are asked where nobody is named.
    pub async fn order_health(&self) -> (Result<(), Failure>, ProviderStatus) {
        (self.hear().await.order, self.shared.providers.order().status())
    }

    /// Asks the providers; one look at a time.
    async fn hear(&self) -> Heard {
        let mut last = self.shared.health.last.lock().await;
        if let Some((_, heard)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return heard.clone();
        }
        let providers = &self.shared.providers;
        let named = providers.named();
        let answers = join_all(named.values().map(|provider| provider.health()));
        let (answers, order) = join(answers, providers.order().health()).await;
        let heard = Heard { named: named.keys().cloned().zip(answers).collect(), order };
        *last = Some((Instant::now(), heard.clone()));
        heard
    }

    /// Whether new prompts could be kept now.
    pub async fn storage_health(&self) -> Result<(), StorageError> {
        let late =
            || Err(StorageError::other(format!("storage does not answer within {} s", STORAGE.as_secs())));
        timeout(STORAGE, self.shared.ports.journal.health()).await.unwrap_or_else(|_| late())
    }

    /// The time by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.shared.ports.clock.now()
    }

    /// What is known of each configured provider without asking it.
    pub fn provider_standings(&self) -> BTreeMap<String, ProviderStatus> {
        let named = self.shared.providers.named().iter();
        named.map(|(name, provider)| (name.clone(), provider.status())).collect()
    }
}
