//! Opening a data folder: one process at a time, tables up to date, and what a dead process left behind
//! brought to its end.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use domain::{Cause, Ended, Event, Step, StorageError, Timestamp};
use rusqlite::Connection;
use tracing::info;

use super::segments::{self, Recovered, Segments};
use super::sync::Syncer;
use super::unfinished::Unfinished;
use super::{Cache, Database, Durability, Durable, DurableSettings, codec, prompts};

impl Durable {
    /// Opens the store in a folder. Prompts that ran when the last process died end with `interrupted`.
    pub fn open(settings: &DurableSettings, now: Timestamp) -> Result<Self, StorageError> {
        let failed = |error: io::Error| StorageError(format!("{}: {error}", settings.folder.display()));
        fs::create_dir_all(&settings.folder).map_err(failed)?;
        let lock = lock(&settings.folder)?;
        let journal = settings.folder.join("journal");
        let recovered = segments::recover(&journal).map_err(failed)?;
        let database = Database::open(&settings.folder.join("history.db"), settings.durability, now)?;
        database.write_now(|db| end_what_ran(db, &recovered, now))?;
        recovered.segments.iter().for_each(|path| segments::remove(path));
        Ok(Self {
            database,
            segments: Segments::create(&journal, settings.journal).map_err(failed)?,
            syncer: (settings.durability == Durability::Power).then(Syncer::default),
            unfinished: Unfinished::default(),
            cache: Cache::new(settings.cache_bytes),
            _lock: lock,
        })
    }
}

/// Takes the folder's lock, which the system gives back when the process ends, however it ends.
fn lock(folder: &Path) -> Result<File, StorageError> {
    let path = folder.join("lock");
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| StorageError(format!("{}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError(format!(
            "{} is in use by another server: stop it, or give this one a folder of its own (data_dir)",
            folder.display()
        ))),
        Err(TryLockError::Error(error)) => Err(StorageError(format!("{}: {error}", path.display()))),
    }
}

fn end_what_ran(db: &Connection, recovered: &Recovered, now: Timestamp) -> rusqlite::Result<()> {
    for (who, prompt, mut log) in prompts::in_flight(db)? {
        let empty = Vec::new();
        continue_log(&mut log, recovered.logs.get(&prompt).unwrap_or(&empty), now);
        prompts::fold(db, &who, prompt, &log)?;
        info!(%prompt, "a prompt that was running when the server died was ended");
    }
    Ok(())
}

/// Adds to the beginning of a log what the journal has of it, each event once, and its end.
fn continue_log(log: &mut Vec<u8>, journal: &[u8], now: Timestamp) {
    let beginning = codec::decode(log).unwrap_or_default();
    let (mut position, mut at) = (1, now);
    if let Some(event) = beginning.iter().flat_map(|batch| batch.iter()).last() {
        (position, at) = (event.position + 1, event.at);
    }
    for batch in codec::decode(journal).unwrap_or_default() {
        // A log that was copied forward is in the journal twice.
        let new: Vec<Event> = batch.iter().filter(|event| event.position >= position).cloned().collect();
        let Some(last) = new.last() else { continue };
        if new[0].position != position {
            break;
        }
        (position, at) = (last.position + 1, last.at);
        codec::encode(&new, log);
    }
    let ended = Step::Ended(Box::new(Ended::interrupted(Cause::Recovery)));
    codec::encode(&[Event { position, at: at.max(now), step: ended }], log);
}
