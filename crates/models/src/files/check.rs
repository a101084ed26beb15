//! Whether a file is the one that the manifest names. Nothing is repaired here. A file that was read in full gets
//! a stamp beside it, with its size and time; as long as both stay, the stamp is believed.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::beside;
use super::manifest::{Model, ModelFile};
use super::sha256::Sha256;

/// A file whose time is younger may yet be changed without a change of its time: clocks of file systems tick
/// slowly.
const SETTLED: Duration = Duration::from_secs(2);

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is not there.
    Missing,
    /// It has this many bytes.
    Size(u64),
    /// It has this hash.
    Hash(Sha256),
    /// It cannot be read.
    Unreadable(String),
}

/// A file of a model that is not as it should be; its text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableFile {
    /// The model's name.
    pub model: Box<str>,
    /// Where the file should be.
    pub path: Box<Path>,
    /// Its hash in the manifest.
    pub sha256: Sha256,
    /// Its size in the manifest.
    pub bytes: u64,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// How closely to look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Believe the stamp, if there is one.
    Stamped,
    /// Read all of it.
    Full,
}

/// Compares a file with what the manifest says of it.
pub(super) fn check(path: &Path, wanted: &ModelFile, depth: Depth) -> Result<(), Flaw> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Flaw::Missing,
        _ => Flaw::Unreadable(error.to_string()),
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.len() != wanted.bytes {
        return Err(Flaw::Size(metadata.len()));
    }
    let modified = metadata.modified().ok();
    let stamp = modified.map(|modified| stamp(wanted, modified));
    let stamp_path = beside(path, ".checked");
    if depth == Depth::Stamped && stamp.is_some() && fs::read_to_string(&stamp_path).ok() == stamp {
        return Ok(());
    }
    let found = Sha256::of(&mut file).map_err(unreadable)?;
    if found != wanted.sha256 {
        return Err(Flaw::Hash(found));
    }
    if let Some(stamp) = stamp.filter(|_| modified.is_some_and(settled)) {
        // Where it cannot be written, as in a folder that is only read, the file is read again next time.
        let _ = fs::write(stamp_path, stamp);
    }
    Ok(())
}

fn stamp(wanted: &ModelFile, modified: SystemTime) -> String {
    let nanoseconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{} {} {nanoseconds}\n", wanted.sha256, wanted.bytes)
}

fn settled(modified: SystemTime) -> bool {
    modified.elapsed().is_ok_and(|age| age > SETTLED)
}

impl UnusableFile {
    pub(super) fn new(model: &Model, file: &ModelFile, path: PathBuf, flaw: Flaw) -> Self {
        Self {
            model: model.name.as_str().into(),
            path: path.into(),
            sha256: file.sha256,
            bytes: file.bytes,
            flaw,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Size(bytes) => write!(f, "has {bytes} bytes"),
            Self::Hash(sha256) => write!(f, "has the sha256 {sha256}"),
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl fmt::Display for UnusableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, path, sha256, bytes, flaw } = self;
        write!(
            f,
            "{} {flaw}; expected are {bytes} bytes with the sha256 {sha256}. \
             `wellspring models pull {model}` repairs it",
            path.display()
        )
    }
}

impl Error for UnusableFile {}

#[cfg(test)]
mod tests;
