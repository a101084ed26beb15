//! `[models]`: the files and the prefix cache of models in this process, and which model a name means.

use std::path::PathBuf;

use ::models::files::{Manifest, Model, Purpose};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::directories;
use super::invalid_setting::{InvalidSetting, suggestion};
use super::validator::Validator;

/// The default of `embedding.model`.
pub(super) const DEFAULT_EMBEDDER: &str = "granite-embedding-30m-english";

/// The default of `providers.NAME.model`.
pub(super) const DEFAULT_CHAT: &str = "qwen2.5-coder-1.5b-instruct";

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ModelSettings {
    pub(crate) dir: PathBuf,
    /// Without a slash at its end.
    pub(crate) hub: String,
    pub(crate) prefix_cache_memory_bytes: usize,
    pub(crate) prefix_cache_disk_bytes: u64,
    pub(crate) read_ahead: ReadingAhead,
}

/// When the prefix cache is filled in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReadingAhead {
    /// while no prompt runs
    #[default]
    Idle,
    /// only as prompts need them
    Never,
}

/// A model in this process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EmbeddedModel {
    /// One of the manifest, in `models.dir`.
    Known(&'static Model),
    /// One of the user's own: a sentence-transformers folder, or a GGUF file to chat with.
    Own(PathBuf),
}

impl EmbeddedModel {
    /// The model, if its files can be pulled.
    pub(crate) fn known(self) -> Option<&'static Model> {
        match self {
            Self::Known(model) => Some(model),
            Self::Own(_) => None,
        }
    }
}

/// Models in this process.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ModelsTable {
    /// The folder of their files [default: `wellspring/models` in the XDG cache directory].
    dir: Option<String>,
    /// The model hub, or a mirror of it, that `wellspring models pull` asks first.
    hub: String,
    /// The prefix cache in memory, in bytes: half of it for passages, half for conversations. 0 turns it off.
    #[schemars(range(min = 0, max = 1_099_511_627_776_u64))]
    prefix_cache_memory_bytes: u64,
    /// The prefix cache on disk, in bytes: passages, in the folder `cache` of `dir`. 0 turns it off.
    #[schemars(range(min = 0, max = 1_125_899_906_842_624_u64))]
    prefix_cache_disk_bytes: u64,
    /// When a server fills the prefix cache with all passages of the knowledge base, as far as there is room.
    /// `wellspring models warm` fills it at once.
    read_ahead: ReadingAhead,
}

impl Default for ModelsTable {
    fn default() -> Self {
        Self {
            dir: None,
            hub: "https://huggingface.co".to_owned(),
            prefix_cache_memory_bytes: 268_435_456,
            prefix_cache_disk_bytes: 2_147_483_648,
            read_ahead: ReadingAhead::default(),
        }
    }
}

impl ModelsTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> ModelSettings {
        let default_dir = directories::models(validator.environment);
        ModelSettings {
            dir: validator.folder("models.dir", self.dir, default_dir),
            hub: validator.base_url("models.hub", Some(self.hub)).unwrap_or_default(),
            prefix_cache_memory_bytes: validator
                .number("models.prefix_cache_memory_bytes", self.prefix_cache_memory_bytes),
            prefix_cache_disk_bytes: validator
                .number("models.prefix_cache_disk_bytes", self.prefix_cache_disk_bytes),
            read_ahead: self.read_ahead,
        }
    }
}

/// The model that a setting means: a path if there is a slash in it, otherwise a name of the manifest.
pub(super) fn embedded(model: &str, purpose: Purpose) -> Result<EmbeddedModel, InvalidSetting> {
    if model.contains('/') {
        return Ok(EmbeddedModel::Own(PathBuf::from(model)));
    }
    let models = Manifest::committed().models.iter().filter(|known| known.purpose == purpose);
    let models: Vec<_> = models.collect();
    if let Some(known) = models.iter().find(|known| known.name == model) {
        return Ok(EmbeddedModel::Known(known));
    }
    let names: Vec<_> = models.iter().map(|known| known.name.as_str()).collect();
    let (suggestion, names) = (suggestion(model, &names), names.join(", "));
    let (what, path) = match purpose {
        Purpose::Embedding => ("embedding model", "a folder such as ./my-model"),
        Purpose::Chat => ("chat model", "a file such as ./my-model.gguf"),
    };
    Err(format!("{model:?} is not a known {what}{suggestion}; allowed are {names}, or {path}").into())
}
