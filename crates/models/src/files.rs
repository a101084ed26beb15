//! The files that models are made of: which there are (`manifest`), whether they lie where they should (`check`),
//! and how to get them (`pull`). A file lies at `<folder>/<model>/<file>`, whole and with the right hash, or it
//! does not lie there: whatever is on its way has another name. Nothing is fetched unless `pull` is called.

mod check;
mod fetch;
mod hub;
mod manifest;
mod package;
mod part;
mod pull;
mod sha256;

pub use check::{Flaw, UnusableFile};
pub use hub::{Hub, Proxy};
pub use manifest::{HubFile, InvalidManifest, Manifest, Model, ModelFile, Place, Purpose, WheelFile};
pub use pull::{Progress, PullFailure, Source, Tried};
pub use sha256::Sha256;

use std::path::{Path, PathBuf};

use check::Depth;

/// The folder in which models lie, shared by all who use them.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// The models in a folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Where a model is: its file if it has one, else its folder.
    pub fn path(&self, model: &Model) -> PathBuf {
        match model.files.as_slice() {
            [file] => self.file(model, file),
            _ => self.model_folder(model),
        }
    }

    /// Where a model is, if all of its files are right. A file that was found right is not read again until
    /// its size or time changes, so that large models cost nothing at the second start.
    pub fn locate(&self, model: &Model) -> Result<PathBuf, UnusableFile> {
        self.first_flaw(model, Depth::Stamped)?;
        Ok(self.path(model))
    }

    /// Gets the files of a model that are missing or wrong, and tells how many those were. It reads in full
    /// what is there. It blocks its thread while it reads and writes, so it is for commands, not for servers.
    pub async fn pull(
        &self,
        model: &Model,
        source: &Source,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<usize, PullFailure> {
        pull::pull(self, model, source, tell).await
    }

    fn first_flaw(&self, model: &Model, depth: Depth) -> Result<(), UnusableFile> {
        model.files.iter().try_for_each(|file| {
            let path = self.file(model, file);
            check::check(&path, file, depth).map_err(|flaw| UnusableFile::new(model, file, path, flaw))
        })
    }

    fn model_folder(&self, model: &Model) -> PathBuf {
        self.folder.join(&model.name)
    }

    fn file(&self, model: &Model, file: &ModelFile) -> PathBuf {
        self.model_folder(model).join(&file.name)
    }
}

/// The name of something that belongs to a file and lies beside it.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
