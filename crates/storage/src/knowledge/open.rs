//! Opening the catalog. A damaged file is set aside and a new one begun: documents can be ingested again.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::{StorageError, Timestamp};

use super::{Embedded, KNOWLEDGE, Knowledge};
use crate::folder;
use crate::sqlite::{self, Database, Durability, Fault};

impl Knowledge {
    /// Opens the catalog in a folder, which is made if it is missing. Other processes may have it open.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self, StorageError> {
        let opened = folder::make(folder, durability).map_err(Fault::from);
        let opened = opened.and_then(|()| match Self::try_to_open(folder, durability) {
            Err(Fault::Damaged(_)) => Self::begin_anew(folder, durability),
            opened => opened,
        });
        opened.map_err(|fault| StorageError::other(format!("{}: {fault}", folder.display())))
    }

    /// A catalog that is gone when it is dropped.
    pub fn in_memory() -> Self {
        let opened = Database::in_memory(&KNOWLEDGE).and_then(Self::over);
        opened.expect("a database in memory needs nothing but memory")
    }

    fn try_to_open(folder: &Path, durability: Durability) -> Result<Self, Fault> {
        Database::open(&KNOWLEDGE, folder, durability).and_then(Self::over)
    }

    fn over(database: Database) -> Result<Self, Fault> {
        Ok(Self { bulk: database.another_reader()?, database, embedded: Embedded::default() })
    }

    /// Sets a damaged catalog aside, unless another process has done so meanwhile.
    fn begin_anew(folder: &Path, durability: Durability) -> Result<Self, Fault> {
        let lock = File::open(folder)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let file = KNOWLEDGE.file;
                Fault::Other(format!(
                    "{file} is damaged, and another process is setting it aside: start again"
                ))
            }
            TryLockError::Error(error) => error.into(),
        })?;
        match Self::try_to_open(folder, durability) {
            Err(Fault::Damaged(reason)) => {
                sqlite::set_aside(&folder.join(KNOWLEDGE.file), &reason, now())?;
                Self::try_to_open(folder, durability)
            }
            opened => opened,
        }
    }
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(0).plus(since_epoch)
}
