//! Copies of the databases of a data folder, also while others write them. Each copy is one state of its database,
//! whole and checked. The journal is not copied: it has only what runs, and the index can be made anew.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::StorageError;
use rusqlite::{Connection, OpenFlags};

use crate::durable::HISTORY;
use crate::knowledge::KNOWLEDGE;

/// How long somebody else's lock on a database is waited for. Writers do not hold one against readers; another
/// process that opens or closes the file does, for a moment.
const PATIENCE: Duration = Duration::from_secs(10);

/// A database that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// Its name, in both folders.
    pub file: &'static str,
    /// How large the copy is.
    pub bytes: u64,
}

/// Copies what a data folder has into another folder, which must be new or empty.
pub fn back_up(from: &Path, to: &Path) -> Result<Vec<BackedUp>, StorageError> {
    let failed = |error: io::Error| StorageError::other(format!("{}: {error}", to.display()));
    let there = [HISTORY.file, KNOWLEDGE.file].into_iter().filter(|file| from.join(file).exists());
    let there: Vec<_> = there.collect();
    if there.is_empty() {
        return Err(StorageError::other(format!(
            "{} has no database to copy: is it data_dir?",
            from.display()
        )));
    }
    // What people asked is nobody else's business.
    DirBuilder::new().recursive(true).mode(0o700).create(to).map_err(failed)?;
    if fs::read_dir(to).map_err(failed)?.next().is_some() {
        let to = to.display();
        return Err(StorageError::other(format!("{to} is not empty: name a folder that is new or empty")));
    }
    let copied: Result<_, _> = there.iter().map(|file| copy(from, to, file)).collect();
    let copied = copied.inspect_err(|_| clear_away(to, &there))?;
    // Files have their names on the disk once the folder is there.
    File::open(to).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(copied)
}

/// Copies a database under another name, checks the copy, and gives it its name last: a file of that name is whole.
fn copy(from: &Path, to: &Path, file: &'static str) -> Result<BackedUp, StorageError> {
    let part = part(to, file);
    let failed = |error: io::Error| StorageError::other(format!("{}: {error}", part.display()));
    // Whatever its folder lets others do. SQLite takes an empty file for one that is not there.
    File::options().write(true).create_new(true).mode(0o600).open(&part).map_err(failed)?;
    let checked = vacuum_into(&from.join(file), &part).and_then(|()| check(&part));
    match checked.map_err(|error| StorageError::other(format!("{file}: {error}")))?.as_str() {
        "ok" => {}
        found => return Err(StorageError::other(format!("{file} is damaged, and so is its copy: {found}"))),
    }
    let bytes = keep(&part, to.join(file)).map_err(failed)?;
    Ok(BackedUp { file, bytes })
}

fn part(to: &Path, file: &str) -> PathBuf {
    to.join(format!("{file}.part"))
}

/// Half a backup is of no use, and would be in the way of the next one.
fn clear_away(to: &Path, files: &[&str]) {
    for file in files {
        let _ = (fs::remove_file(part(to, file)), fs::remove_file(to.join(file)));
    }
}

fn vacuum_into(database: &Path, part: &Path) -> rusqlite::Result<()> {
    let connection = open(database)?;
    connection.busy_timeout(PATIENCE)?;
    connection.execute("VACUUM INTO ?1", [part.to_string_lossy()])?;
    Ok(())
}

/// What SQLite says of a file; `ok` if it is.
fn check(part: &Path) -> rusqlite::Result<String> {
    open(part)?.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// SQLite does not wait until the disk has such a copy.
fn keep(part: &Path, name: PathBuf) -> io::Result<u64> {
    let file = File::open(part)?;
    file.sync_all()?;
    fs::rename(part, name)?;
    Ok(file.metadata()?.len())
}
