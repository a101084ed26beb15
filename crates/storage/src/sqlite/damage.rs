//! Why a database cannot be used, and what becomes of a damaged one: it is set aside under another name, never
//! deleted. Damage that shows while a process runs is noted, and the next one that opens the file looks at it.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use domain::{StorageError, Timestamp};
use rusqlite::{Connection, ErrorCode};
use tracing::error;

/// Why a database cannot be opened.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file is no sound database.
    Damaged(String),
    /// Something else, which may pass.
    Other(String),
}

impl Fault {
    pub(super) fn new(file: &str, error: &rusqlite::Error) -> Self {
        let reason = told(file, error);
        if is_corrupt(error) { Self::Damaged(reason) } else { Self::Other(reason) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Damaged(reason) | Self::Other(reason)) = self;
        f.write_str(reason)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

/// An error of SQLite's for a person: which file it is about, what is wrong and, where we know, what to do.
pub(super) fn told(file: &str, error: &rusqlite::Error) -> String {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            ": another process has been writing to it for too long; try again when it is done"
        }
        Some(ErrorCode::DiskFull) => ": make room where it lies",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            ": it is damaged; the next start sets it aside and begins a new one"
        }
        _ => "",
    };
    format!("{file}: {error}{advice}")
}

pub(super) fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Renames a damaged database and what belongs to it.
pub(crate) fn set_aside(path: &Path, reason: &str, now: Timestamp) -> io::Result<()> {
    let mark = format!(".corrupt-{}", now.micros());
    // The database last: without its log beside it, a process that dies in between finds it damaged still.
    for suffix in ["-wal", "-shm", ""] {
        let from = beside(path, suffix);
        if from.exists() {
            std::fs::rename(&from, beside(path, &format!("{mark}{suffix}")))?;
        }
    }
    let _ = std::fs::remove_file(beside(path, SUSPECT));
    let aside = beside(path, &mark);
    error!(path = %aside.display(), reason, "a database is damaged: it was set aside and a new one begun");
    Ok(())
}

/// A file as it was opened, whatever its name is now.
pub(super) struct Opened {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl Opened {
    pub(super) fn now(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), device_and_inode: device_and_inode(path)? })
    }

    /// Another process may have set the file aside. What is written to it then is lost with it.
    pub(super) fn check_that_it_is_in_place(&self) -> Result<(), StorageError> {
        if device_and_inode(&self.path).is_ok_and(|now| now == self.device_and_inode) {
            return Ok(());
        }
        let path = self.path.display();
        Err(StorageError::other(format!(
            "{path} was damaged and set aside by another process, or taken away: restart the server"
        )))
    }
}

fn device_and_inode(path: &Path) -> io::Result<(u64, u64)> {
    let file = std::fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// The name of the note that a database is to be checked, behind the database's own.
const SUSPECT: &str = ".suspect";

/// Notes that damage has shown. Checking all of a database takes too long for every start, so only the next
/// one does.
pub(super) fn suspect(path: &Path, error: &rusqlite::Error) {
    let note = beside(path, SUSPECT);
    if !note.exists() {
        let noted = std::fs::write(&note, error.to_string()).is_ok();
        error!(path = %path.display(), %error, noted, "a database is damaged: restart the server, which sets it aside");
    }
}

pub(super) fn check_if_suspect(path: &Path, connection: &Connection) -> Result<(), Fault> {
    let note = beside(path, SUSPECT);
    if !note.exists() {
        return Ok(());
    }
    let checked = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    let found = checked.map_err(|error| Fault::new(&path.to_string_lossy(), &error))?;
    if found != "ok" {
        return Err(Fault::Damaged(found));
    }
    Ok(std::fs::remove_file(note)?)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
