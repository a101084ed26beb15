//! Opening the catalog. A damaged file is set aside and a new one begun: documents can be ingested again.

use std::error::Error;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::{StorageError, StorageErrorKind, Timestamp};

use super::{CATALOG_SCHEMA, EmbeddingProgress, SqliteCatalog};
use crate::sqlite::{self, Database, Durability};
use crate::{data_folder, io_error};

impl SqliteCatalog {
    /// Opens the catalog in a folder, which is created if it is missing. Other processes may have it open.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self, StorageError> {
        data_folder::create(folder, durability)?;
        let opened = match Self::try_open(folder, durability) {
            Err(error) if error.kind() == StorageErrorKind::Damaged || was_moved(&error) => {
                Self::replace(folder, durability)
            }
            opened => opened,
        };
        opened.map_err(|error| {
            let message = format!("{}: {error}", folder.display());
            error.with_message(message)
        })
    }

    /// An empty catalog in memory.
    pub fn in_memory() -> Self {
        let opened = Database::in_memory(&CATALOG_SCHEMA).and_then(Self::new);
        opened.expect("a database in memory needs nothing but memory")
    }

    fn try_open(folder: &Path, durability: Durability) -> Result<Self, StorageError> {
        Database::open(&CATALOG_SCHEMA, folder, durability).and_then(Self::new)
    }

    fn new(database: Database) -> Result<Self, StorageError> {
        let bulk_reader = database.new_reader()?;
        Ok(Self { bulk_reader, database, embedding_progress: EmbeddingProgress::default() })
    }

    /// Sets a damaged catalog aside and begins a new one, unless another process has done so meanwhile.
    fn replace(folder: &Path, durability: Durability) -> Result<Self, StorageError> {
        let file = CATALOG_SCHEMA.file;
        let lock = File::open(folder).map_err(|error| io_error::storage_error(file, error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StorageError::new(
                StorageErrorKind::Locked,
                format!("{file} is damaged, and another process is setting it aside: start again"),
            ),
            TryLockError::Error(error) => io_error::storage_error(file, error),
        })?;
        match Self::try_open(folder, durability) {
            Err(damage) if damage.kind() == StorageErrorKind::Damaged => {
                sqlite::set_aside(&folder.join(file), &damage, now())?;
                Self::try_open(folder, durability)
            }
            opened => opened,
        }
    }
}

/// Whether another process renamed the files, to set them aside, while this one opened them.
fn was_moved(error: &StorageError) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<rusqlite::Error>());
    let cause = cause.and_then(rusqlite::Error::sqlite_error);
    cause.is_some_and(|cause| cause.extended_code == rusqlite::ffi::SQLITE_IOERR_DELETE_NOENT)
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(0).plus(since_epoch)
}
