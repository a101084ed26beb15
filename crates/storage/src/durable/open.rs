//! Opening a data folder: lock, migrate, recover what a dead process left behind, and set damage aside.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

use domain::{PromptId, StorageError, StorageErrorKind, Timestamp};

use super::history::prompts;
use super::journal::{self, GroupSync, SegmentJournal};
use super::log_cache::LogCache;
use super::unrecorded_ends::UnrecordedEnds;
use super::{Durability, DurableStore, DurableStoreSettings, HISTORY_SCHEMA, recovery};
use crate::sqlite::{self, Database};
use crate::{data_folder, io_error};

impl DurableStore {
    /// Opens the store in a folder. Prompts that ran when the last process died end as `interrupted` at `now`.
    pub fn open(settings: &DurableStoreSettings, now: Timestamp) -> Result<Self, StorageError> {
        let folder = &settings.folder;
        data_folder::create(folder, settings.durability)?;
        let lock = lock(folder)?;
        let database = open_or_replace_history(settings, now).map_err(|error| {
            let message = format!("{}: {error}", folder.display());
            error.with_message(message)
        })?;
        let journal = SegmentJournal::create(&folder.join("journal"), settings.journal, settings.durability)
            .map_err(|error| io_error::storage_error(folder.display(), error))?;
        let journal = Arc::new(journal);
        Ok(Self {
            database,
            group_sync: (settings.durability == Durability::Power).then(|| GroupSync::new(journal.clone())),
            journal,
            unrecorded_ends: UnrecordedEnds::default(),
            log_cache: LogCache::new(settings.cache_bytes),
            _lock: lock,
        })
    }
}

/// Locks the folder. The operating system releases the lock when the process ends, however it ends.
fn lock(folder: &Path) -> Result<File, StorageError> {
    let path = folder.join("lock");
    let failed = |error| io_error::storage_error(path.display(), error);
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::new(
            StorageErrorKind::Locked,
            format!(
                "{} is in use by another server or command: stop it, or give this one a folder of its own (data_dir)",
                folder.display()
            ),
        )),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Opens the history. A damaged one is set aside and a new one begun.
fn open_or_replace_history(
    settings: &DurableStoreSettings,
    now: Timestamp,
) -> Result<Database, StorageError> {
    match open_history(settings, now) {
        Err(damage) if damage.kind() == StorageErrorKind::Damaged => {
            set_aside(&settings.folder, &damage, now)?;
            open_history(settings, now)
        }
        opened => opened,
    }
}

/// Opens the history, and ends the prompts that ran. The journal is cleared once the history has stored their logs.
fn open_history(settings: &DurableStoreSettings, now: Timestamp) -> Result<Database, StorageError> {
    let is_new = !settings.folder.join(HISTORY_SCHEMA.file).exists();
    let database = Database::open(&HISTORY_SCHEMA, &settings.folder, settings.durability)?;
    let running = database.write_blocking(prompts::in_flight)?;
    let wanted: HashSet<PromptId> = running.iter().map(|(_, prompt, _)| *prompt).collect();
    let journal = journal::recover(&settings.folder.join("journal"), |prompt| wanted.contains(&prompt))?;
    if is_new {
        // The history was removed, so the journal has the only copy of what ran.
        journal.set_aside(now)?;
        return Ok(database);
    }
    database.write_blocking(|db| recovery::end_running(db, running, &journal.logs, now))?;
    journal.clear(now)?;
    Ok(database)
}

/// Sets a damaged history aside, with the journal, whose prompts only the history knows. The history goes last, so that
/// a crash in between leads here again.
fn set_aside(folder: &Path, damage: &StorageError, now: Timestamp) -> Result<(), StorageError> {
    journal::recover(&folder.join("journal"), |_| false)?.set_aside(now)?;
    sqlite::set_aside(&folder.join(HISTORY_SCHEMA.file), damage, now)
}
