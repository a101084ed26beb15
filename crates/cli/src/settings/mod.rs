//! Settings, in two steps. As typed: `sources` are merged into a `tree`, which is `read` into the `Typed…`
//! structs. Then resolved: `checks` turn those into `Settings`, once. Each concern has one file with both of
//! its structs; `show` and `remarks` tell a person about the result. Nothing in here reads the environment by
//! itself; `SettingsFile` reads the one file.

mod breaker;
mod checks;
mod directories;
mod embedding;
mod generation;
mod knowledge;
mod limits;
mod mistake;
mod models;
mod problem;
mod providers;
mod read;
mod remarks;
mod secret;
mod server;
mod show;
mod sources;
mod storage;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use breaker::{BreakerSettings, TypedBreaker};
use checks::Checks;
use embedding::{EmbeddingSettings, TypedEmbedding};
use generation::{GenerationSettings, TypedGeneration};
use knowledge::{IndexSettings, IngestSettings, RerankSettings, TypedIndex};
use limits::{LimitSettings, SessionSettings, StreamSettings, TypedLimits, TypedSessions, TypedStreams};
use models::{ModelSettings, TypedModels};
use problem::Problems;
use providers::TypedProviders;
use server::{AuthSettings, ServerSettings, TypedServer};
use storage::{LiveSettings, StorageSettings, TypedLive, TypedStorage};
use tree::Tree;

pub(crate) use embedding::EmbeddingKind;
pub(crate) use generation::{NothingFoundPolicy, RewritingKind};
pub(crate) use knowledge::{Chunking, IndexKind, RerankKind};
pub(crate) use mistake::suggestion;
pub(crate) use models::{EmbeddedModel, ReadingAhead};
pub(crate) use providers::{ProviderKind, ProviderSettings, Reading};
pub(crate) use remarks::remarks;
pub(crate) use server::{AuthMode, Network};
pub(crate) use show::show;
pub(crate) use sources::{Environment, Flags, SettingsFile, Sources};
pub(crate) use storage::{Durability, StorageKind};

/// All settings, checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Settings {
    /// The folder for everything that is kept.
    pub(crate) data_dir: PathBuf,
    /// The HTTP server.
    pub(crate) server: ServerSettings,
    /// Answers.
    pub(crate) generation: GenerationSettings,
    /// Those who generate and can be asked, by their names.
    pub(crate) providers: BTreeMap<String, ProviderSettings>,
    /// Those of them who fail.
    pub(crate) breaker: BreakerSettings,
    /// In-process models.
    pub(crate) models: ModelSettings,
    /// Embedding.
    pub(crate) embedding: EmbeddingSettings,
    /// Reading documents.
    pub(crate) ingest: IngestSettings,
    /// Reranking.
    pub(crate) rerank: RerankSettings,
    /// The index.
    pub(crate) index: IndexSettings,
    /// What is kept.
    pub(crate) storage: StorageSettings,
    /// What several servers share.
    pub(crate) live: LiveSettings,
    /// Sessions.
    pub(crate) sessions: SessionSettings,
    /// Bounds.
    pub(crate) limits: LimitSettings,
    /// Streams.
    pub(crate) streams: StreamSettings,
    /// Who may use it.
    pub(crate) auth: AuthSettings,
}

/// All settings as typed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Typed {
    data_dir: Option<String>,
    server: TypedServer,
    generation: TypedGeneration,
    #[serde(default = "providers::only_local")]
    providers: TypedProviders,
    breaker: TypedBreaker,
    models: TypedModels,
    embedding: TypedEmbedding,
    ingest: IngestSettings,
    rerank: RerankSettings,
    index: TypedIndex,
    storage: TypedStorage,
    live: TypedLive,
    sessions: TypedSessions,
    limits: TypedLimits,
    streams: TypedStreams,
    auth: AuthSettings,
}

impl Settings {
    /// Merges the sources and checks what comes out. The tree knows where each setting comes from.
    pub(crate) fn load(sources: &Sources<'_>) -> Result<(Self, Tree), Problems> {
        let tree = Tree::merge(sources)?;
        Ok((Self::resolve(&tree, sources.environment)?, tree))
    }

    /// Checks what was typed. The environment is asked for keys and directories.
    fn resolve(tree: &Tree, environment: &Environment) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let typed: Option<Typed> = read::read(tree, &mut problems);
        let mut checks = Checks::new(tree, environment, problems);
        let settings = typed.map(|typed| typed.resolve(&mut checks));
        let problems = checks.into_problems();
        match settings {
            Some(settings) if problems.is_empty() => Ok(settings),
            _ => Err(Problems(problems)),
        }
    }
}

impl Typed {
    fn resolve(self, checks: &mut Checks<'_>) -> Settings {
        let in_an_order = self.generation.named_providers();
        Settings {
            data_dir: checks.folder("data_dir", self.data_dir, directories::data(checks.environment)),
            server: self.server.resolve(checks),
            generation: self.generation.resolve(checks, &self.providers),
            providers: providers::resolve(checks, self.providers, &in_an_order),
            breaker: self.breaker.resolve(checks),
            models: self.models.resolve(checks),
            embedding: self.embedding.resolve(checks),
            ingest: self.ingest,
            rerank: self.rerank,
            index: self.index.resolve(checks),
            storage: self.storage.resolve(checks),
            live: self.live.resolve(checks),
            sessions: self.sessions.resolve(checks),
            limits: self.limits.resolve(checks),
            streams: self.streams.resolve(checks),
            auth: self.auth,
        }
    }
}
