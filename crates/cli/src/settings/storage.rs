//! Settings of what is kept: history and documents, and what several servers share while prompts run.

use serde::{Deserialize, Serialize};

use super::checks::Checks;
use super::secret::SecretUrl;

/// `[storage]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StorageSettings {
    /// What keeps it.
    pub(crate) kind: StorageKind,
    /// Where the database is.
    pub(crate) url: Option<SecretUrl>,
    /// What an event that was shown survives.
    pub(crate) durability: Durability,
    /// How long history is kept.
    pub(crate) retention_days: u32,
    /// How many bytes of finished logs are kept in memory.
    pub(crate) memory_bytes: usize,
    /// How many sessions are kept in memory.
    pub(crate) memory_sessions: usize,
}

/// What keeps history and documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StorageKind {
    /// This process, until it ends.
    #[default]
    Memory,
    /// Files in the data folder.
    Sqlite,
    /// A Postgres server.
    Postgres,
}

/// What an event that was shown survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// The end of the process.
    #[default]
    Process,
    /// The loss of power too.
    Power,
}

/// `[live]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LiveSettings {
    /// Where sessions and running logs live.
    pub(crate) kind: LiveKind,
    /// Where Redis is.
    pub(crate) url: Option<SecretUrl>,
}

/// Where sessions and running logs live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LiveKind {
    /// With everything else.
    #[default]
    Storage,
    /// In Redis, for several servers to share.
    Redis,
}

/// `[storage]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedStorage {
    kind: StorageKind,
    url: Option<String>,
    durability: Durability,
    retention_days: u64,
    memory_bytes: u64,
    memory_sessions: u64,
}

impl Default for TypedStorage {
    fn default() -> Self {
        Self {
            kind: StorageKind::default(),
            url: None,
            durability: Durability::default(),
            retention_days: 30,
            memory_bytes: 268_435_456,
            memory_sessions: 100_000,
        }
    }
}

/// `[live]` as typed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedLive {
    kind: LiveKind,
    url: Option<String>,
}

impl TypedStorage {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> StorageSettings {
        match self.kind {
            StorageKind::Memory => {}
            StorageKind::Sqlite => checks.refuse("storage.kind", not_built("sqlite", "memory")),
            StorageKind::Postgres => checks.refuse("storage.kind", not_built("postgres", "memory")),
        }
        StorageSettings {
            kind: self.kind,
            url: checks.url("storage.url", self.url, &["postgres", "postgresql"]),
            durability: self.durability,
            retention_days: checks.number("storage.retention_days", self.retention_days, 1..=36_500),
            memory_bytes: checks.number("storage.memory_bytes", self.memory_bytes, 1_048_576..=1 << 40),
            memory_sessions: checks.number("storage.memory_sessions", self.memory_sessions, 1..=100_000_000),
        }
    }
}

impl TypedLive {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> LiveSettings {
        if self.kind == LiveKind::Redis {
            checks.refuse("live.kind", not_built("redis", "storage"));
        }
        LiveSettings { kind: self.kind, url: checks.url("live.url", self.url, &["redis", "rediss"]) }
    }
}

fn not_built(kind: &str, allowed: &str) -> String {
    format!("{kind:?} is not built yet; allowed is {allowed:?}")
}
