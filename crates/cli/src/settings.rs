//! Settings, resolved in two steps.
//!
//! 1. As typed: the settings file, the environment and the flags (`sources`) are merged into `raw`, in which each value
//!    knows where it comes from; `renamed` moves values from old keys to new ones. `deserialize` reads them into the
//!    `…Table` structs, which declare each key with its type, default, bounds and description.
//! 2. Resolved: the `validator` turns the tables into [`Settings`], once, and collects every problem on the way.
//!
//! Each concern has one file with its table and its resolved struct. `show` and `warnings` report the result to a person,
//! `reference` writes `docs/settings.md` from the tables. Only [`SettingsFile::read`] reads a file, and nothing here reads
//! the environment by itself.

mod breaker;
mod deserialize;
mod directories;
mod embedding;
mod error;
mod generation;
mod invalid_setting;
mod knowledge;
mod limits;
mod models;
mod providers;
mod raw;
#[cfg(test)]
mod reference;
mod renamed;
mod schema;
mod secret;
mod server;
mod show;
mod sources;
mod storage;
mod validator;
mod warnings;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use breaker::{BreakerSettings, BreakerTable};
use embedding::{EmbeddingSettings, EmbeddingTable};
use generation::{GenerationSettings, GenerationTable};
use knowledge::{IndexSettings, IndexTable, IngestSettings, RerankSettings};
use limits::{LimitSettings, LimitsTable, SessionSettings, SessionsTable, StreamSettings, StreamsTable};
use models::{ModelSettings, ModelsTable};
use providers::ProviderTables;
use raw::RawSettings;
use server::{AuthSettings, ServerSettings, ServerTable};
use storage::{LiveSettings, LiveTable, StorageSettings, StorageTable};
use validator::Validator;

pub(crate) use embedding::EmbeddingKind;
pub(crate) use error::SettingsError;
pub(crate) use generation::{NothingFoundPolicy, RewritingKind};
pub(crate) use invalid_setting::suggestion;
pub(crate) use knowledge::{Chunking, RerankKind};
pub(crate) use models::{EmbeddedModel, ReadingAhead};
pub(crate) use providers::{ProviderKind, ProviderSettings, Reading};
pub(crate) use server::{AuthMode, Network};
pub(crate) use show::show;
pub(crate) use sources::{Environment, Flags, SettingsFile, SettingsSources};
pub(crate) use storage::{Durability, StorageKind};
pub(crate) use warnings::warnings;

/// All settings, validated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    pub(crate) server: ServerSettings,
    pub(crate) generation: GenerationSettings,
    /// By their names.
    pub(crate) providers: BTreeMap<String, ProviderSettings>,
    pub(crate) breaker: BreakerSettings,
    pub(crate) models: ModelSettings,
    pub(crate) embedding: EmbeddingSettings,
    pub(crate) ingest: IngestSettings,
    pub(crate) rerank: RerankSettings,
    pub(crate) index: IndexSettings,
    pub(crate) storage: StorageSettings,
    pub(crate) live: LiveSettings,
    pub(crate) sessions: SessionSettings,
    pub(crate) limits: LimitSettings,
    pub(crate) streams: StreamSettings,
    pub(crate) auth: AuthSettings,
}

/// The settings file's tables, as typed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SettingsTables {
    /// The folder for the journal, the databases and the index [default: `wellspring` in the XDG data directory].
    data_dir: Option<String>,
    server: ServerTable,
    generation: GenerationTable,
    #[serde(default = "providers::only_local")]
    providers: ProviderTables,
    breaker: BreakerTable,
    models: ModelsTable,
    embedding: EmbeddingTable,
    ingest: IngestSettings,
    rerank: RerankSettings,
    index: IndexTable,
    storage: StorageTable,
    live: LiveTable,
    sessions: SessionsTable,
    limits: LimitsTable,
    streams: StreamsTable,
    auth: AuthSettings,
}

impl Settings {
    /// Merges the sources and validates the result. The raw settings know where each value comes from.
    pub(crate) fn load(sources: &SettingsSources<'_>) -> Result<(Self, RawSettings), SettingsError> {
        let raw = RawSettings::merge(sources)?;
        Ok((Self::resolve(&raw, sources.environment)?, raw))
    }

    /// Validates what was typed. Keys and default directories are taken from the environment.
    fn resolve(raw: &RawSettings, environment: &Environment) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        let tables: Option<SettingsTables> = deserialize::deserialize(raw, &mut problems);
        let mut validator = Validator::new(raw, environment, problems);
        let settings = tables.map(|tables| tables.resolve(&mut validator));
        let problems = validator.into_problems();
        match settings {
            Some(settings) if problems.is_empty() => Ok(settings),
            _ => Err(SettingsError::Invalid(problems)),
        }
    }
}

impl SettingsTables {
    fn resolve(self, validator: &mut Validator<'_>) -> Settings {
        let used_providers = self.generation.named_providers();
        let default_data_dir = directories::data(validator.environment);
        Settings {
            data_dir: validator.folder("data_dir", self.data_dir, default_data_dir),
            server: self.server.resolve(validator),
            generation: self.generation.resolve(validator, &self.providers),
            providers: providers::resolve(validator, self.providers, &used_providers),
            breaker: self.breaker.resolve(validator),
            models: self.models.resolve(validator),
            embedding: self.embedding.resolve(validator),
            ingest: self.ingest,
            rerank: self.rerank,
            index: self.index.resolve(validator),
            storage: self.storage.resolve(validator),
            live: self.live.resolve(validator),
            sessions: self.sessions.resolve(validator),
            limits: self.limits.resolve(validator),
            streams: self.streams.resolve(validator),
            auth: self.auth,
        }
    }
}
