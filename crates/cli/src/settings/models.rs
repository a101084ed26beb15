//! Settings of models that run in this process: where their files are and come from, and which ones are meant.

use std::path::PathBuf;

use ::models::files::{Manifest, Model, Purpose};
use serde::{Deserialize, Serialize};

use super::checks::Checks;
use super::directories;
use super::mistake::suggestion;

/// The model that embeds if none is named.
pub(super) const DEFAULT_EMBEDDER: &str = "granite-embedding-30m-english";

/// The model that answers if none is named.
pub(super) const DEFAULT_CHAT: &str = "qwen2.5-coder-1.5b-instruct";

/// `[models]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ModelSettings {
    /// Where the files of in-process models are.
    pub(crate) dir: PathBuf,
    /// Where the model hub is, or a mirror of it; without a slash at its end.
    pub(crate) hub: String,
    /// How many bytes of what chat models have read are kept in memory.
    pub(crate) kept_memory_bytes: usize,
    /// How many bytes of it are kept in files.
    pub(crate) kept_disk_bytes: u64,
    /// Whether a server has them read passages ahead of any question.
    pub(crate) read_ahead: ReadingAhead,
}

/// When passages are read ahead of any question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReadingAhead {
    /// While nobody asks.
    #[default]
    Idle,
    /// Not at all.
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
    /// The model whose files can be pulled.
    pub(crate) fn known(self) -> Option<&'static Model> {
        match self {
            Self::Known(model) => Some(model),
            Self::Own(_) => None,
        }
    }
}

/// `[models]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedModels {
    dir: Option<String>,
    hub: String,
    kept_memory_bytes: u64,
    kept_disk_bytes: u64,
    read_ahead: ReadingAhead,
}

impl Default for TypedModels {
    fn default() -> Self {
        Self {
            dir: None,
            hub: "https://huggingface.co".to_owned(),
            kept_memory_bytes: 268_435_456,
            kept_disk_bytes: 2_147_483_648,
            read_ahead: ReadingAhead::default(),
        }
    }
}

impl TypedModels {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> ModelSettings {
        let default = directories::models(checks.environment);
        ModelSettings {
            dir: checks.folder("models.dir", self.dir, default),
            hub: checks.base_url("models.hub", Some(self.hub)).unwrap_or_default(),
            kept_memory_bytes: checks.number("models.kept_memory_bytes", self.kept_memory_bytes, 0..=1 << 40),
            kept_disk_bytes: checks.number("models.kept_disk_bytes", self.kept_disk_bytes, 0..=1 << 50),
            read_ahead: self.read_ahead,
        }
    }
}

/// The model that is meant: what has a slash in it is a path, everything else a name.
pub(super) fn embedded(model: &str, purpose: Purpose) -> Result<EmbeddedModel, String> {
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
        Purpose::Embedding => ("embedder", "a folder such as ./my-model"),
        Purpose::Chat => ("chat model", "a file such as ./my-model.gguf"),
    };
    Err(format!("{model:?} is no {what} that is known{suggestion}; allowed are {names}, or {path}"))
}
