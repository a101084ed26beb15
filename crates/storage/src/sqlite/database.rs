//! A database: one connection that writes, connections that read, and one for checkpoints. Each runs one call at a
//! time, on a thread where blocking is allowed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use domain::{StorageError, StorageErrorKind};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tokio::sync::Mutex;

use super::checkpoint::{self, CheckpointThread};
use super::damage::{self, FileIdentity};
use super::error::storage_error;
use super::{Durability, Schema, migrations};
use crate::io_error;

/// An open database.
pub(crate) struct Database {
    /// Dropped before the writer: the last connection to close removes the write-ahead log. None in memory.
    checkpoints: Option<CheckpointThread>,
    reader: QueuedConnection,
    writer: QueuedConnection,
    last_write_failed: AtomicBool,
    /// None in memory.
    file: Option<FileIdentity>,
}

impl Database {
    /// Opens the database in a folder, and migrates its tables.
    pub(crate) fn open(
        schema: &'static Schema,
        folder: &Path,
        durability: Durability,
    ) -> Result<Self, StorageError> {
        let path = folder.join(schema.file);
        let failed = |error| storage_error(schema.file, error);
        let io_failed = |error| io_error::storage_error(schema.file, error);
        let mut writer = connect_writer(schema, &path, durability).map_err(failed)?;
        damage::check_if_suspect(&path, &writer)?;
        migrations::run(schema, &mut writer)?;
        let for_checkpoints = connect(schema, &path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        let checkpoints = CheckpointThread::start(schema.file, for_checkpoints).map_err(io_failed)?;
        let file = FileIdentity::of(&path).map_err(io_failed)?;
        let writer = QueuedConnection::new(schema, Some(path), writer);
        let reader = writer.new_reader().map_err(failed)?;
        Ok(Self {
            checkpoints: Some(checkpoints),
            reader,
            writer,
            last_write_failed: AtomicBool::new(false),
            file: Some(file),
        })
    }

    /// Opens a database in memory, with one connection for everything.
    pub(crate) fn in_memory(schema: &'static Schema) -> Result<Self, StorageError> {
        let failed = |error| storage_error(schema.file, error);
        let mut writer = Connection::open_in_memory().map_err(failed)?;
        prepare(&writer, schema.busy_timeout).map_err(failed)?;
        migrations::run(schema, &mut writer)?;
        let writer = QueuedConnection::new(schema, None, writer);
        let (reader, last_write_failed) = (writer.clone(), AtomicBool::new(false));
        Ok(Self { checkpoints: None, reader, writer, last_write_failed, file: None })
    }

    /// One more connection that reads, for slow calls that must not delay others.
    pub(crate) fn new_reader(&self) -> Result<QueuedConnection, StorageError> {
        self.writer.new_reader().map_err(|error| storage_error(self.writer.schema.file, error))
    }

    /// Runs `work` on the connection that writes, in one transaction.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let written = self.writer.call(|connection| in_transaction(connection, work)).await;
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.wake();
        }
        let written = self.check_in_place().and(written);
        self.last_write_failed.store(written.is_err(), Ordering::Relaxed);
        written
    }

    /// Whether the database can be read and written. Writing is only tried after a write that failed.
    pub(crate) async fn health(&self) -> Result<(), StorageError> {
        if self.last_write_failed.load(Ordering::Relaxed) {
            self.write(migrations::rewrite_version).await?;
        }
        self.check_in_place()?;
        self.read(|db| db.query_row("SELECT 1", [], |_| Ok(()))).await
    }

    fn check_in_place(&self) -> Result<(), StorageError> {
        self.file.as_ref().map_or(Ok(()), FileIdentity::check_in_place)
    }

    /// Writes on the calling thread, for use while the store opens.
    pub(crate) fn write_blocking<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        let mut connection = self.writer.connection.try_lock().expect("no other call exists during the open");
        in_transaction(&mut connection, work).map_err(|error| storage_error(self.writer.schema.file, error))
    }

    /// Runs `work` on the connection that reads, on one snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.reader.read(work).await
    }
}

/// A connection with a first-in, first-out queue of calls.
#[derive(Clone)]
pub(crate) struct QueuedConnection {
    schema: &'static Schema,
    /// None in memory.
    path: Option<PathBuf>,
    connection: Arc<Mutex<Connection>>,
}

impl QueuedConnection {
    fn new(schema: &'static Schema, path: Option<PathBuf>, connection: Connection) -> Self {
        Self { schema, path, connection: Arc::new(Mutex::new(connection)) }
    }

    /// A new connection that reads the same database. In memory it is the same connection.
    fn new_reader(&self) -> rusqlite::Result<Self> {
        let Some(path) = &self.path else { return Ok(self.clone()) };
        let connection = connect(self.schema, path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(Self::new(self.schema, Some(path.clone()), connection))
    }

    /// Runs `work` on one snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.call(|connection| {
            let transaction = connection.transaction()?;
            work(&transaction)
        })
        .await
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (called, timeout) = (Instant::now(), self.schema.busy_timeout);
        let mut connection = self.connection.clone().lock_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            connection.busy_timeout(timeout.saturating_sub(called.elapsed()))?;
            work(&mut connection)
        });
        let done = done.await.map_err(|panic| {
            let message = format!("a call of {} failed: {panic}", self.schema.file);
            StorageError::other(message).caused_by(panic)
        })?;
        done.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: rusqlite::Error) -> StorageError {
        let error = storage_error(self.schema.file, error);
        if let Some(path) = self.path.as_ref().filter(|_| error.kind() == StorageErrorKind::Damaged) {
            damage::mark_suspect(path, &error);
        }
        error
    }
}

fn connect_writer(schema: &Schema, path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let writer = connect(schema, path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    writer.pragma_update(None, "page_size", schema.page_size)?;
    enable_write_ahead_log(schema, &writer)?;
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    writer.pragma_update(None, "synchronous", synchronous)?;
    writer.pragma_update(None, "wal_autocheckpoint", checkpoint::AUTOCHECKPOINT_PAGES)?;
    Ok(writer)
}

/// Retries while another process creates the log: SQLite's busy timeout does not cover this pragma.
fn enable_write_ahead_log(schema: &Schema, writer: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        let done = writer.pragma_update(None, "journal_mode", "WAL");
        let busy = done.as_ref().is_err_and(|error| {
            error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                && began.elapsed() < schema.busy_timeout
        });
        if !busy {
            return done;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn connect(schema: &Schema, path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    prepare(&connection, schema.busy_timeout)?;
    Ok(connection)
}

fn prepare(connection: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "foreign_keys", true)
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

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: Schema = Schema {
        file: "some.db",
        busy_timeout: Duration::from_millis(20),
        page_size: 4096,
        migrations: &["CREATE TABLE numbers (number INTEGER)"],
    };

    fn insert(db: &Connection) -> rusqlite::Result<usize> {
        db.execute("INSERT INTO numbers VALUES (1)", [])
    }

    #[tokio::test]
    async fn a_call_that_waits_too_long_for_a_lock_fails_as_locked_by_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&SCHEMA, folder.path(), Durability::Process).unwrap();
        let other = Connection::open(folder.path().join(SCHEMA.file)).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = database.write(insert).await.unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Locked);
        assert!(error.to_string().starts_with("some.db: database is locked: another process"), "{error}");
        assert!(database.health().await.is_err(), "a database that can only be read is not healthy");
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(database.health().await, Ok(()));
        assert_eq!(database.write(insert).await, Ok(1));
    }

    #[tokio::test]
    async fn a_write_to_a_file_that_was_moved_away_fails() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&SCHEMA, folder.path(), Durability::Process).unwrap();
        let path = folder.path().join(SCHEMA.file);
        std::fs::rename(&path, folder.path().join("aside.db")).unwrap();
        for _ in 0..2 {
            for outcome in [database.health().await, database.write(insert).await.map(|_| ())] {
                let message = outcome.unwrap_err().to_string();
                assert!(message.contains("restart the server"), "{message}");
            }
            std::fs::write(&path, "another file").unwrap();
        }
    }
}
