//! Backups: copies of a data folder's databases while other processes write them. Each copy is one consistent,
//! checked snapshot. The journal is left out, because it holds only running prompts, and so is the index, which is
//! rebuilt from the catalog.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{StorageError, StorageErrorKind};
use rusqlite::{Connection, OpenFlags};

use crate::durable::HISTORY_SCHEMA;
use crate::{catalog, io_error, sqlite};

/// How long a copy waits for another process's lock. Writers do not block readers; opening and closing a database
/// does, for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The copy of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseCopy {
    /// The file's name, in both folders.
    pub file: &'static str,
    /// The size of the copy.
    pub bytes: u64,
}

/// Copies the databases of a data folder into another folder, which must be new or empty. A backup that fails
/// leaves no files behind.
pub fn back_up(from: &Path, to: &Path) -> Result<Vec<DatabaseCopy>, StorageError> {
    let failed = |error| io_error::storage_error(to.display(), error);
    let databases: Vec<_> = [HISTORY_SCHEMA.file, catalog::CATALOG_SCHEMA.file]
        .into_iter()
        .filter(|file| from.join(file).exists())
        .collect();
    if databases.is_empty() {
        return Err(StorageError::other(format!(
            "{} has no database to copy: is it data_dir?",
            from.display()
        )));
    }
    // Readable by its owner alone: it holds what people asked.
    DirBuilder::new().recursive(true).mode(0o700).create(to).map_err(failed)?;
    if fs::read_dir(to).map_err(failed)?.next().is_some() {
        let to = to.display();
        return Err(StorageError::other(format!("{to} is not empty: name a folder that is new or empty")));
    }
    let copied: Result<_, _> = databases.iter().map(|file| copy(from, to, file)).collect();
    let copied = copied.inspect_err(|_| remove_partial_backup(to, &databases))?;
    // New names are on the disk once their folder is synced.
    File::open(to).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(copied)
}

/// Copies a database under a temporary name, checks the copy and renames it last: a file with the final name is whole.
fn copy(from: &Path, to: &Path, file: &'static str) -> Result<DatabaseCopy, StorageError> {
    let part = part_path(to, file);
    let failed = |error| io_error::storage_error(part.display(), error);
    // The mode is set here because the folder's may be wider. SQLite treats an empty file like a missing one.
    File::options().write(true).create_new(true).mode(0o600).open(&part).map_err(failed)?;
    let checked = vacuum_into(&from.join(file), &part).and_then(|()| quick_check(&part));
    let verdict = checked.map_err(|error| {
        let message = format!("{file}: {error}");
        sqlite::storage_error(file, error).with_message(message)
    })?;
    if verdict != "ok" {
        return Err(StorageError::new(
            StorageErrorKind::Damaged,
            format!("{file} is damaged, and so is its copy: {verdict}"),
        ));
    }
    let bytes = sync_and_rename(&part, &to.join(file)).map_err(failed)?;
    Ok(DatabaseCopy { file, bytes })
}

fn part_path(to: &Path, file: &str) -> PathBuf {
    to.join(format!("{file}.part"))
}

/// Leaves the folder empty again, so that the next backup can use it.
fn remove_partial_backup(to: &Path, files: &[&str]) {
    for file in files {
        let _ = (fs::remove_file(part_path(to, file)), fs::remove_file(to.join(file)));
    }
}

fn vacuum_into(database: &Path, part: &Path) -> rusqlite::Result<()> {
    let connection = open(database)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute("VACUUM INTO ?1", [part.to_string_lossy()])?;
    Ok(())
}

/// SQLite's verdict on a file: `ok`, or its first problem.
fn quick_check(part: &Path) -> rusqlite::Result<String> {
    open(part)?.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// `VACUUM INTO` does not sync the file it writes.
fn sync_and_rename(part: &Path, name: &Path) -> io::Result<u64> {
    let file = File::open(part)?;
    file.sync_all()?;
    fs::rename(part, name)?;
    Ok(file.metadata()?.len())
}
