//! Downloads the files of a model that are missing or wrong. One process at a time pulls a model; others wait
//! for its lock and then find the files.

mod fetch;
mod hub;
mod partial_file;
mod wheels;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::ModelStore;
use super::manifest::{ManifestFile, Model};
use super::sha256::Sha256;
use super::verify::{VerifyMode, verify};
use fetch::{FetchError, Fetcher};
pub use hub::{Hub, HubProxy};

/// Where a pull gets files from.
#[derive(Clone)]
pub enum PullSource {
    /// The sources in the manifest, with the model hub at this address.
    Manifest(Hub),
    /// A folder with files of the same names; the network is not used.
    Folder(PathBuf),
}

/// A step of a pull.
#[derive(Clone, Copy, Debug)]
pub enum PullProgress<'a> {
    /// Another process pulls this model; this one waits for it.
    Waiting,
    /// A source is asked for a file.
    Asking {
        /// The file.
        file: &'a ManifestFile,
        /// The source.
        source: &'a str,
    },
    /// Part of a file is downloaded.
    Received {
        /// The file.
        file: &'a ManifestFile,
        /// Bytes received so far.
        bytes: u64,
        /// Bytes in total, if known.
        of: Option<u64>,
    },
    /// A source failed; the next one is asked, if there is one.
    Failed {
        /// The file.
        file: &'a ManifestFile,
        /// The source.
        source: &'a str,
        /// Why it failed.
        reason: &'a str,
    },
    /// A file is verified and has its final name.
    Completed {
        /// The file.
        file: &'a ManifestFile,
    },
}

/// A source that failed to give a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSource {
    /// The source: a URL, a path or the name of a package.
    pub source: String,
    /// Why it failed.
    pub reason: String,
}

/// Why a model could not be pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The model's folder cannot be written.
    #[error(
        "{} cannot be written: {error}; models.dir must be a writable folder with room for the model",
        .path.display()
    )]
    Storage {
        /// The path that was to be written.
        path: PathBuf,
        /// What the file system reported.
        #[source]
        error: io::Error,
    },
    /// All sources of a file failed.
    #[error(
        "{file} of {model} could not be fetched:\n{}Any copy of {bytes} bytes with the sha256 {sha256} works: \
         put it into a folder and run `wellspring models pull {model} --from FOLDER`",
        lines(.failed)
    )]
    AllSourcesFailed {
        /// The model's name.
        model: String,
        /// The file's name.
        file: String,
        /// Its hash.
        sha256: Sha256,
        /// Its size.
        bytes: u64,
        /// Every source, in the order in which they were asked.
        failed: Vec<FailedSource>,
    },
}

fn lines(failed: &[FailedSource]) -> String {
    failed.iter().map(|FailedSource { source, reason }| format!("  {source}: {reason}\n")).collect()
}

pub(super) async fn pull(
    store: &ModelStore,
    model: &Model,
    source: &PullSource,
    on_progress: &mut dyn FnMut(PullProgress<'_>),
) -> Result<usize, PullError> {
    if store.verify(model, VerifyMode::Hash).is_ok() {
        return Ok(0);
    }
    let folder = store.model_folder(model);
    let _lock =
        lock(&folder, on_progress).map_err(|error| PullError::Storage { path: folder.clone(), error })?;
    let mut fetcher = Fetcher::new(source, model, &folder);
    let mut fetched = 0;
    for file in &model.files {
        let target = store.file_path(model, file);
        if verify(&target, file, VerifyMode::Hash).is_ok() {
            continue;
        }
        let outcome = fetcher.fetch(file, &target, on_progress).await;
        outcome.map_err(|error| pull_error(error, model, file, target))?;
        on_progress(PullProgress::Completed { file });
        fetched += 1;
    }
    Ok(fetched)
}

/// Waits for the lock of a model's folder. The operating system releases it when the process that holds it
/// ends. Every step of a pull has a time limit, so the wait is bounded too.
fn lock(folder: &Path, on_progress: &mut dyn FnMut(PullProgress<'_>)) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(folder.join(".lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(error),
        Err(TryLockError::WouldBlock) => {
            on_progress(PullProgress::Waiting);
            lock.lock()?;
        }
    }
    Ok(lock)
}

fn pull_error(error: FetchError, model: &Model, file: &ManifestFile, path: PathBuf) -> PullError {
    match error {
        FetchError::Storage(error) => PullError::Storage { path, error },
        FetchError::AllSourcesFailed(failed) => PullError::AllSourcesFailed {
            model: model.name.clone(),
            file: file.name.clone(),
            sha256: file.sha256,
            bytes: file.bytes,
            failed,
        },
    }
}
