//! Settings of models that run in this process: where their files are and come from, and which one embeds.

use std::path::PathBuf;

use ::models::files::{Manifest, Model, Purpose};
use serde::{Deserialize, Serialize};

use super::checks::Checks;
use super::directories;
use super::mistake::suggestion;

/// The model that embeds if none is named.
pub(super) const DEFAULT_EMBEDDER: &str = "granite-embedding-30m-english";

/// `[models]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ModelSettings {
    /// Where the files of in-process models are.
    pub(crate) dir: PathBuf,
    /// Where the model hub is, or a mirror of it; without a slash at its end.
    pub(crate) hub: String,
}

/// A model in this process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EmbeddedModel {
    /// One of the manifest, in `models.dir`.
    Known(&'static Model),
    /// A sentence-transformers folder of the user's own.
    Folder(PathBuf),
}

/// `[models]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedModels {
    dir: Option<String>,
    hub: String,
}

impl Default for TypedModels {
    fn default() -> Self {
        Self { dir: None, hub: "https://huggingface.co".to_owned() }
    }
}

impl TypedModels {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> ModelSettings {
        let default = directories::models(checks.environment);
        ModelSettings {
            dir: checks.folder("models.dir", self.dir, default),
            hub: checks.base_url("models.hub", Some(self.hub)).unwrap_or_default(),
        }
    }
}

/// The embedder that is meant: what has a slash in it is a folder, everything else a name.
pub(super) fn embedded(model: &str) -> Result<EmbeddedModel, String> {
    if model.contains('/') {
        return Ok(EmbeddedModel::Folder(PathBuf::from(model)));
    }
    let embedders: Vec<_> = Manifest::committed().models.iter().filter(|model| embeds(model)).collect();
    if let Some(known) = embedders.iter().find(|known| known.name == model) {
        return Ok(EmbeddedModel::Known(known));
    }
    let names: Vec<_> = embedders.iter().map(|known| known.name.as_str()).collect();
    let (suggestion, names) = (suggestion(model, &names), names.join(", "));
    Err(format!(
        "{model:?} is no embedder that is known{suggestion}; allowed are {names}, or a folder such as ./my-model"
    ))
}

fn embeds(model: &Model) -> bool {
    model.purpose == Purpose::Embedding
}
