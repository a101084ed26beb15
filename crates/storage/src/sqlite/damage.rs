//! Damaged databases. Damage found by a running process leaves a marker file, and the next process that opens the
//! database runs an integrity check. A database that fails it is renamed, never deleted.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use domain::{StorageError, StorageErrorKind, Timestamp};
use rusqlite::Connection;
use tracing::error;

use super::error::storage_error;
use crate::io_error;

/// Renames a damaged database with its write-ahead log.
pub(crate) fn set_aside(path: &Path, reason: &StorageError, now: Timestamp) -> Result<(), StorageError> {
    let aside = with_suffix(path, &corrupt_suffix(now));
    rename_all(path, now).map_err(|error| io_error::storage_error(path.display(), error))?;
    error!(path = %aside.display(), %reason, "a database is damaged: it was set aside and a new one begun");
    Ok(())
}

fn rename_all(path: &Path, now: Timestamp) -> io::Result<()> {
    // The database last: without its log beside it, the next start still finds it damaged after a crash in between.
    for suffix in ["-wal", "-shm", ""] {
        let from = with_suffix(path, suffix);
        if from.exists() {
            std::fs::rename(&from, with_suffix(path, &format!("{}{suffix}", corrupt_suffix(now))))?;
        }
    }
    let _ = std::fs::remove_file(with_suffix(path, SUSPECT_SUFFIX));
    Ok(())
}

fn corrupt_suffix(now: Timestamp) -> String {
    format!(".corrupt-{}", now.micros())
}

/// The identity of an open file, whatever its name is now.
pub(super) struct FileIdentity {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl FileIdentity {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), device_and_inode: device_and_inode(path)? })
    }

    /// Fails if another process has set the file aside meanwhile: what is written to it then is lost with it.
    pub(super) fn check_in_place(&self) -> Result<(), StorageError> {
        if device_and_inode(&self.path).is_ok_and(|now| now == self.device_and_inode) {
            return Ok(());
        }
        let path = self.path.display();
        Err(StorageError::new(
            StorageErrorKind::Damaged,
            format!("{path} was damaged and set aside by another process, or taken away: restart the server"),
        ))
    }
}

fn device_and_inode(path: &Path) -> io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// The suffix of the marker file, after the database's name.
const SUSPECT_SUFFIX: &str = ".suspect";

/// Marks a database for an integrity check at the next open. The check reads the whole file, too slow for every
/// start.
pub(super) fn mark_suspect(path: &Path, error: &StorageError) {
    let marker = with_suffix(path, SUSPECT_SUFFIX);
    if !marker.exists() {
        let noted = std::fs::write(&marker, error.to_string()).is_ok();
        error!(path = %path.display(), %error, noted, "a database is damaged: restart the server, which sets it aside");
    }
}

/// Checks a marked database, and removes the marker if it is sound.
pub(super) fn check_if_suspect(path: &Path, connection: &Connection) -> Result<(), StorageError> {
    let marker = with_suffix(path, SUSPECT_SUFFIX);
    if !marker.exists() {
        return Ok(());
    }
    let verdict = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    let verdict = verdict.map_err(|error| storage_error(&path.to_string_lossy(), error))?;
    if verdict != "ok" {
        return Err(StorageError::new(StorageErrorKind::Damaged, verdict));
    }
    std::fs::remove_file(&marker).map_err(|error| io_error::storage_error(marker.display(), error))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
