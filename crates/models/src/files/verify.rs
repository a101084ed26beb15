//! Compares a file with its entry in the manifest. A file that was hashed gets a stamp beside it with its
//! size and modification time; while both are unchanged, the stamp replaces hashing.

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::manifest::{ManifestFile, Model};
use super::sha256::Sha256;
use super::with_suffix;

/// Minimum age of a file before it is stamped. File systems have coarse clocks: a younger file may change
/// again without a change of its modification time.
const MIN_STAMP_AGE: Duration = Duration::from_secs(2);

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum FileDefect {
    /// The file does not exist.
    #[error("is missing")]
    Missing,
    /// The file has this size in bytes.
    #[error("has {0} bytes")]
    WrongSize(u64),
    /// The file has this hash.
    #[error("has the sha256 {0}")]
    WrongHash(Sha256),
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
}

/// A file of a model that is missing or wrong. The message names the command that repairs it.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} {defect}; expected {bytes} bytes with the sha256 {sha256}: run `wellspring models pull {model}`",
    .path.display()
)]
pub struct FileError {
    /// The model's name.
    pub model: Box<str>,
    /// The path where the file is expected.
    pub path: Box<Path>,
    /// Its hash in the manifest.
    pub sha256: Sha256,
    /// Its size in the manifest.
    pub bytes: u64,
    /// What is wrong with it.
    #[source]
    pub defect: FileDefect,
}

impl FileError {
    pub(super) fn new(model: &Model, file: &ManifestFile, path: PathBuf, defect: FileDefect) -> Self {
        Self {
            model: model.name.as_str().into(),
            path: path.into(),
            sha256: file.sha256,
            bytes: file.bytes,
            defect,
        }
    }
}

/// Whether a stamp replaces hashing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VerifyMode {
    /// A valid stamp is enough.
    TrustStamp,
    /// The file is hashed in any case.
    Hash,
}

/// Compares a file with its entry in the manifest. It repairs nothing.
pub(super) fn verify(path: &Path, expected: &ManifestFile, mode: VerifyMode) -> Result<(), FileDefect> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => FileDefect::Missing,
        _ => FileDefect::Unreadable(error),
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.len() != expected.bytes {
        return Err(FileDefect::WrongSize(metadata.len()));
    }
    let modified = metadata.modified().ok();
    let stamp = modified.map(|modified| stamp(expected, modified));
    let stamp_path = with_suffix(path, ".checked");
    if mode == VerifyMode::TrustStamp && stamp.is_some() && fs::read_to_string(&stamp_path).ok() == stamp {
        return Ok(());
    }
    let found = Sha256::of(&mut file).map_err(unreadable)?;
    if found != expected.sha256 {
        return Err(FileDefect::WrongHash(found));
    }
    if let Some(stamp) = stamp.filter(|_| modified.is_some_and(is_old_enough)) {
        // Without a stamp, as in a read-only folder, the file is hashed again next time.
        let _ = fs::write(stamp_path, stamp);
    }
    Ok(())
}

fn stamp(expected: &ManifestFile, modified: SystemTime) -> String {
    let nanoseconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{} {} {nanoseconds}\n", expected.sha256, expected.bytes)
}

fn is_old_enough(modified: SystemTime) -> bool {
    modified.elapsed().is_ok_and(|age| age > MIN_STAMP_AGE)
}
