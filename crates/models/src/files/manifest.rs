//! Which models there are, and where their files can be had. It names files and never touches them. Whoever holds
//! a manifest may rely on it: names stay within a model's folder, and no two are the same.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path};
use std::sync::LazyLock;

use serde::Deserialize;

use super::sha256::Sha256;

/// All models that can be pulled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// In the order in which they are listed.
    pub models: Vec<Model>,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its name, and that of its folder.
    pub name: String,
    /// What it is for.
    pub purpose: Purpose,
    /// Its licence, as SPDX names it.
    pub licence: String,
    /// The model that it was made from.
    pub upstream: String,
    /// What it is made of.
    pub files: Vec<ModelFile>,
}

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Texts to vectors.
    Embedding,
    /// Questions to answers.
    Chat,
}

/// One file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Its path in the model's folder.
    pub name: String,
    /// What decides whether it is the right one.
    pub sha256: Sha256,
    /// Its size.
    pub bytes: u64,
    /// Where it can be had, the best first.
    pub places: Vec<Place>,
}

/// Where a file can be had.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On the model hub.
    Hub(HubFile),
    /// In packages of the Python index; what they hold, one after the other, is the file.
    Wheels(Vec<WheelFile>),
}

/// A file on the model hub.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubFile {
    /// Such as `sentence-transformers/all-MiniLM-L6-v2`.
    pub repository: String,
    /// The commit, so that what is there cannot change.
    pub revision: String,
    /// The path in the repository.
    pub path: String,
}

/// A file in a package of the Python index.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelFile {
    /// The package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The path in its wheel.
    pub path: String,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidManifest(String);

impl Manifest {
    /// The one that this program was built with.
    pub fn committed() -> &'static Self {
        static COMMITTED: LazyLock<Manifest> = LazyLock::new(|| {
            Manifest::parse(include_str!("../../manifest.toml")).expect("a test reads the same text")
        });
        &COMMITTED
    }

    /// Reads a manifest and checks it.
    pub fn parse(text: &str) -> Result<Self, InvalidManifest> {
        let manifest: Self = toml::from_str(text).map_err(|error| InvalidManifest(error.to_string()))?;
        manifest.check().map_err(InvalidManifest)?;
        Ok(manifest)
    }

    /// The model of this name.
    pub fn find(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }

    fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for model in &self.models {
            if !is_below(&model.name) || model.name.contains('/') || !names.insert(&model.name) {
                return Err(format!("{:?} is not the name of a folder, or given twice", model.name));
            }
            model.check().map_err(|message| format!("{}: {message}", model.name))?;
        }
        Ok(())
    }
}

impl Model {
    /// The size of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for file in &self.files {
            if !is_below(&file.name) || !names.insert(&file.name) {
                return Err(format!("{:?} is not a path in the model's folder, or given twice", file.name));
            }
            if file.bytes == 0 || file.places.is_empty() {
                return Err(format!("{:?} has no bytes, or no place where it can be had", file.name));
            }
        }
        if self.files.is_empty() { Err("it has no files".to_owned()) } else { Ok(()) }
    }
}

/// Whether a path cannot leave the folder that it is joined to. Names that begin with a dot are ours.
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

impl fmt::Display for InvalidManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the manifest of models: {}", self.0)
    }
}

impl std::error::Error for InvalidManifest {}

#[cfg(test)]
mod tests;
