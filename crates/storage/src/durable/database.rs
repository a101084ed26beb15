//! `history.db`: one connection that writes and one that reads, each used by one call at a time and never on
//! a thread of the runtime.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{StorageError, Timestamp};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tokio::sync::Mutex;
use tracing::error;

use super::Durability;
use super::migrations;

/// How long a call waits for somebody else's lock on the file.
const PATIENCE: Duration = Duration::from_secs(1);

/// The database.
pub(crate) struct Database {
    writer: Arc<Mutex<Connection>>,
    reader: Arc<Mutex<Connection>>,
}

impl Database {
    /// Opens the database, and brings its tables up to date. A file that is no sound database is set aside
    /// and a new one begun.
    pub(crate) fn open(path: &Path, durability: Durability, now: Timestamp) -> Result<Self, StorageError> {
        match Self::try_open(path, durability) {
            Err(error) if is_corrupt(&error) => {
                let aside = set_aside(path, now)?;
                error!(path = %aside.display(), %error, "the history database is damaged: it was set aside and a new one begun");
                Self::try_open(path, durability)
            }
            opened => opened,
        }
        .map_err(|error| StorageError(format!("{}: {error}", path.display())))
    }

    fn try_open(path: &Path, durability: Durability) -> rusqlite::Result<Self> {
        let mut writer = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::Process => "NORMAL",
            Durability::Power => "FULL",
        };
        writer.pragma_update(None, "synchronous", synchronous)?;
        writer.pragma_update(None, "foreign_keys", true)?;
        migrations::run(&mut writer)?;
        let reader = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(Self { writer: Arc::new(Mutex::new(writer)), reader: Arc::new(Mutex::new(reader)) })
    }

    /// Runs `work` on the connection that writes, in a transaction: all of it happens, or nothing.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        blocking(&self.writer, |connection| in_transaction(connection, work)).await
    }

    /// The same on the calling thread, before anybody else uses the database.
    pub(crate) fn write_now<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        let mut connection = self.writer.try_lock().expect("nobody else uses the database yet");
        in_transaction(&mut connection, work).map_err(|error| failed(&error))
    }

    /// Runs `work` on the connection that reads, on one state of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        blocking(&self.reader, |connection| {
            let transaction = connection.transaction()?;
            work(&transaction)
        })
        .await
    }
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

async fn blocking<T: Send + 'static>(
    connection: &Arc<Mutex<Connection>>,
    work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, StorageError> {
    let mut connection = connection.clone().lock_owned().await;
    let done = tokio::task::spawn_blocking(move || work(&mut connection)).await;
    done.map_err(|panic| StorageError(format!("a call of the history database failed: {panic}")))?
        .map_err(|error| failed(&error))
}

fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&transaction)?;
    transaction.commit()?;
    Ok(done)
}

fn failed(error: &rusqlite::Error) -> StorageError {
    StorageError(format!("history.db: {error}"))
}

fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Renames the database and what belongs to it.
fn set_aside(path: &Path, now: Timestamp) -> Result<PathBuf, StorageError> {
    let name = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let mark = format!(".corrupt-{}", now.micros());
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (name(suffix), name(&format!("{mark}{suffix}")));
        if from.exists() {
            std::fs::rename(&from, &to).map_err(|error| {
                StorageError(format!("{} is damaged and cannot be set aside: {error}", from.display()))
            })?;
        }
    }
    Ok(name(&mark))
}
