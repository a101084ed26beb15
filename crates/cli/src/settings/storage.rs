//! Settings of what is kept: history and documents, and what several servers share while prompts run.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

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
    #[serde(rename = "retention_days", serialize_with = "in_days")]
    pub(crate) retention: Duration,
    /// The journal of running prompts is kept below this size, or below twice what their logs have.
    pub(crate) journal_bytes: u64,
    /// A segment of the journal is closed at this size.
    pub(crate) segment_bytes: u64,
    /// How many bytes of ended logs that were read lately are kept in memory.
    pub(crate) cache_bytes: usize,
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
    Memory,
    /// Files in the data folder.
    #[default]
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
    journal_bytes: u64,
    segment_bytes: u64,
    cache_bytes: u64,
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
            journal_bytes: 268_435_456,
            segment_bytes: 16_777_216,
            cache_bytes: 16_777_216,
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
        if self.kind == StorageKind::Postgres {
            checks.refuse("storage.kind", not_built("postgres", "\"sqlite\" or \"memory\""));
        }
        if self.segment_bytes > self.journal_bytes / 4 {
            let journal_bytes = self.journal_bytes;
            let message =
                format!("it must be at most a quarter of storage.journal_bytes, which is {journal_bytes}");
            checks.refuse("storage.segment_bytes", message);
        }
        StorageSettings {
            kind: self.kind,
            url: checks.url("storage.url", self.url, &["postgres", "postgresql"]),
            durability: self.durability,
            retention: DAY * checks.number("storage.retention_days", self.retention_days, 1..=36_500),
            journal_bytes: checks.number("storage.journal_bytes", self.journal_bytes, 4_194_304..=1 << 40),
            segment_bytes: checks.number("storage.segment_bytes", self.segment_bytes, 65_536..=1 << 30),
            cache_bytes: checks.number("storage.cache_bytes", self.cache_bytes, 0..=1 << 40),
            memory_bytes: checks.number("storage.memory_bytes", self.memory_bytes, 1_048_576..=1 << 40),
            memory_sessions: checks.number("storage.memory_sessions", self.memory_sessions, 1..=100_000_000),
        }
    }
}

impl TypedLive {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> LiveSettings {
        if self.kind == LiveKind::Redis {
            checks.refuse("live.kind", not_built("redis", "\"storage\""));
        }
        LiveSettings { kind: self.kind, url: checks.url("live.url", self.url, &["redis", "rediss"]) }
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn in_days<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs() / DAY.as_secs())
}

fn not_built(kind: &str, allowed: &str) -> String {
    format!("{kind:?} is not built yet; allowed is {allowed}")
}
