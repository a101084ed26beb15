//! Getting the files of a model that are missing or wrong. One process at a time pulls a model; others wait for it
//! and find the work done.

use std::error::Error;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::Files;
use super::check::{Depth, check};
use super::fetch::{Fetcher, NotFetched};
use super::hub::Hub;
use super::manifest::{Model, ModelFile};
use super::sha256::Sha256;

/// Where files come from.
#[derive(Clone)]
pub enum Source {
    /// From the places in the manifest, with the model hub at this address.
    Places(Hub),
    /// From a folder, by their names; nobody else is asked.
    Folder(PathBuf),
}

/// What happens in a pull.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// Another process pulls this model, and is waited for.
    Waiting,
    /// A place is asked for a file.
    Asking {
        /// The file.
        file: &'a ModelFile,
        /// The place.
        place: &'a str,
    },
    /// Some of a file has come.
    Received {
        /// The file.
        file: &'a ModelFile,
        /// So much is here.
        bytes: u64,
        /// And so much will be, if that is known.
        of: Option<u64>,
    },
    /// A place did not give the file; the next one is asked, if there is one.
    Refused {
        /// The file.
        file: &'a ModelFile,
        /// The place.
        place: &'a str,
        /// Why it did not.
        reason: &'a str,
    },
    /// A file is right and in its place.
    Settled {
        /// The file.
        file: &'a ModelFile,
    },
}

/// A place that did not give a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The place.
    pub place: String,
    /// Why it did not.
    pub reason: String,
}

/// Why a model could not be pulled.
#[derive(Debug)]
pub enum PullFailure {
    /// Its folder cannot be used.
    Storage {
        /// What was to be written.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// No place gave this file.
    Nowhere {
        /// The model's name.
        model: String,
        /// The file's name.
        file: String,
        /// Its hash.
        sha256: Sha256,
        /// Its size.
        bytes: u64,
        /// Every place, and why it did not give the file.
        tried: Vec<Tried>,
    },
}

pub(super) async fn pull(
    files: &Files,
    model: &Model,
    source: &Source,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<usize, PullFailure> {
    if files.first_flaw(model, Depth::Full).is_ok() {
        return Ok(0);
    }
    let folder = files.model_folder(model);
    let _lock = lock(&folder, tell).map_err(|error| PullFailure::Storage { path: folder.clone(), error })?;
    let mut fetcher = Fetcher::new(source, model, &folder);
    let mut fetched = 0;
    for file in &model.files {
        let target = files.file(model, file);
        if check(&target, file, Depth::Full).is_ok() {
            continue;
        }
        let outcome = fetcher.fetch(file, &target, tell).await;
        outcome.map_err(|failure| told(failure, model, file, target))?;
        tell(Progress::Settled { file });
        fetched += 1;
    }
    Ok(fetched)
}

/// Waits for the lock of a model's folder. It is free again as soon as its process has ended, however it ends, and
/// no pull lasts for ever.
fn lock(folder: &Path, tell: &mut dyn FnMut(Progress<'_>)) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(folder.join(".lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(error),
        Err(TryLockError::WouldBlock) => {
            tell(Progress::Waiting);
            lock.lock()?;
        }
    }
    Ok(lock)
}

fn told(failure: NotFetched, model: &Model, file: &ModelFile, path: PathBuf) -> PullFailure {
    match failure {
        NotFetched::Storage(error) => PullFailure::Storage { path, error },
        NotFetched::Nowhere(tried) => PullFailure::Nowhere {
            model: model.name.clone(),
            file: file.name.clone(),
            sha256: file.sha256,
            bytes: file.bytes,
            tried,
        },
    }
}

impl fmt::Display for PullFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage { path, error } => write!(
                f,
                "{} cannot be written: {error}; models.dir must be a folder that can be, with room for the model",
                path.display()
            ),
            Self::Nowhere { model, file, sha256, bytes, tried } => {
                writeln!(f, "{file} of {model} could not be had:")?;
                tried.iter().try_for_each(|Tried { place, reason }| writeln!(f, "  {place}: {reason}"))?;
                write!(
                    f,
                    "Any copy will do that has {bytes} bytes with the sha256 {sha256}: \
                     put it into a folder and run `wellspring models pull {model} --from FOLDER`"
                )
            }
        }
    }
}

impl Error for PullFailure {}
