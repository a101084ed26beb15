//! `[storage]` and `[live]`: where history, documents and the journal are stored.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::secret::SecretUrl;
use super::validator::Validator;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StorageSettings {
    pub(crate) kind: StorageKind,
    pub(crate) url: Option<SecretUrl>,
    pub(crate) durability: Durability,
    #[serde(rename = "retention_days", serialize_with = "in_days")]
    pub(crate) retention: Duration,
    pub(crate) journal_bytes: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) cache_bytes: usize,
    pub(crate) memory_bytes: usize,
    pub(crate) memory_sessions: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StorageKind {
    /// files in `data_dir`
    #[default]
    Sqlite,
    /// in memory, until the process ends
    Memory,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// a crash of the process
    #[default]
    Process,
    /// a power failure too
    Power,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LiveSettings {
    pub(crate) kind: LiveKind,
    pub(crate) url: Option<SecretUrl>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LiveKind {
    /// in the storage of this server
    #[default]
    Storage,
}

/// Where history and documents are stored.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StorageTable {
    /// The store (`"postgres"` is not built yet).
    kind: StorageKind,
    /// The address of Postgres; unused so far.
    url: Option<String>,
    /// What an event that a client has seen survives.
    durability: Durability,
    /// How many days history is kept.
    #[schemars(range(min = 1, max = 36_500))]
    retention_days: u64,
    /// The bound of the journal of running prompts, in bytes.
    #[schemars(range(min = 4_194_304, max = 1_099_511_627_776_u64))]
    journal_bytes: u64,
    /// The size at which a journal segment is closed, in bytes; at most a quarter of `journal_bytes`. It is deleted once no
    /// running prompt needs it.
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    segment_bytes: u64,
    /// The cache of recently read logs of ended prompts, in bytes.
    #[schemars(range(min = 0, max = 1_099_511_627_776_u64))]
    cache_bytes: u64,
    /// With `kind = "memory"`: the bound of the logs of ended prompts, in bytes.
    #[schemars(range(min = 1_048_576, max = 1_099_511_627_776_u64))]
    memory_bytes: u64,
    /// With `kind = "memory"`: the bound of sessions.
    #[schemars(range(min = 1, max = 100_000_000))]
    memory_sessions: u64,
}

impl Default for StorageTable {
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

/// Where sessions and the logs of running prompts live.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LiveTable {
    /// The place (`"redis"`, for several servers to share, is not built yet).
    kind: LiveKind,
    /// The address of Redis; unused so far.
    url: Option<String>,
}

impl StorageTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> StorageSettings {
        if self.segment_bytes > self.journal_bytes / 4 {
            let message = format!(
                "it must be at most a quarter of storage.journal_bytes, which is {}",
                self.journal_bytes
            );
            validator.reject("storage.segment_bytes", message);
        }
        StorageSettings {
            kind: self.kind,
            url: validator.url("storage.url", self.url, &["postgres", "postgresql"]),
            durability: self.durability,
            retention: DAY * validator.number("storage.retention_days", self.retention_days),
            journal_bytes: validator.number("storage.journal_bytes", self.journal_bytes),
            segment_bytes: validator.number("storage.segment_bytes", self.segment_bytes),
            cache_bytes: validator.number("storage.cache_bytes", self.cache_bytes),
            memory_bytes: validator.number("storage.memory_bytes", self.memory_bytes),
            memory_sessions: validator.number("storage.memory_sessions", self.memory_sessions),
        }
    }
}

impl LiveTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> LiveSettings {
        LiveSettings { kind: self.kind, url: validator.url("live.url", self.url, &["redis", "rediss"]) }
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

fn in_days<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs() / DAY.as_secs())
}
