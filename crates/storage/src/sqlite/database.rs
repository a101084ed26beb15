//! A database: one connection that writes and some that read, each used by one call at a time and never on a
//! thread of the runtime; and one for checkpoints.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use domain::StorageError;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tokio::sync::Mutex;

use super::checkpoint::{self, Checkpoints};
use super::damage::{self, Fault, Opened};
use super::{Durability, Schema, migrations};

/// The database.
pub(crate) struct Database {
    /// Closed before the writer, which tidies up if it is the last. None in memory.
    checkpoints: Option<Checkpoints>,
    reader: Lane,
    writer: Lane,
    /// Nothing was written since a write failed.
    failing: AtomicBool,
    /// None in memory.
    file: Option<Opened>,
}

impl Database {
    /// Opens the database in a folder, and brings its tables up to date.
    pub(crate) fn open(
        schema: &'static Schema,
        folder: &Path,
        durability: Durability,
    ) -> Result<Self, Fault> {
        let path = folder.join(schema.file);
        let failed = |error: rusqlite::Error| Fault::new(schema.file, &error);
        let mut writer = connect_writer(schema, &path, durability).map_err(failed)?;
        damage::check_if_suspect(&path, &writer)?;
        migrations::run(schema, &mut writer)?;
        let beside = connect(schema, &path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        let checkpoints = Some(Checkpoints::start(schema.file, beside)?);
        let file = Some(Opened::now(&path)?);
        let writer = Lane::new(schema, Some(path), writer);
        let reader = writer.beside().map_err(failed)?;
        Ok(Self { checkpoints, reader, writer, failing: AtomicBool::new(false), file })
    }

    /// A database that is gone when it is dropped. It has one connection for everything.
    pub(crate) fn in_memory(schema: &'static Schema) -> Result<Self, Fault> {
        let failed = |error: rusqlite::Error| Fault::new(schema.file, &error);
        let mut writer = Connection::open_in_memory().map_err(failed)?;
        prepare(&writer, schema.patience).map_err(failed)?;
        migrations::run(schema, &mut writer)?;
        let writer = Lane::new(schema, None, writer);
        let (reader, failing) = (writer.clone(), AtomicBool::new(false));
        Ok(Self { checkpoints: None, reader, writer, failing, file: None })
    }

    /// One more connection that reads, so that calls that take long hold no others up.
    pub(crate) fn another_reader(&self) -> Result<Lane, Fault> {
        self.writer.beside().map_err(|error| Fault::new(self.writer.schema.file, &error))
    }

    /// Runs `work` on the connection that writes, in a transaction: all of it happens, or nothing.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let written = self.writer.call(|connection| in_transaction(connection, work)).await;
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.wake();
        }
        let written = self.check_that_it_is_in_place().and(written);
        self.failing.store(written.is_err(), Ordering::Relaxed);
        written
    }

    /// Whether it can be read and written to, which is tried if the last write failed.
    pub(crate) async fn health(&self) -> Result<(), StorageError> {
        if self.failing.load(Ordering::Relaxed) {
            self.write(migrations::rewrite_version).await?;
        }
        self.check_that_it_is_in_place()?;
        self.read(|db| db.query_row("SELECT 1", [], |_| Ok(()))).await
    }

    fn check_that_it_is_in_place(&self) -> Result<(), StorageError> {
        self.file.as_ref().map_or(Ok(()), Opened::check_that_it_is_in_place)
    }

    /// The same on the calling thread, before anybody else uses the database.
    pub(crate) fn write_now<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Fault> {
        let mut connection = self.writer.connection.try_lock().expect("nobody else uses the database yet");
        in_transaction(&mut connection, work).map_err(|error| Fault::new(self.writer.schema.file, &error))
    }

    /// Runs `work` on the connection that reads, on one state of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.reader.read(work).await
    }
}

/// A connection, and the queue of calls for it.
#[derive(Clone)]
pub(crate) struct Lane {
    schema: &'static Schema,
    /// None in memory.
    path: Option<PathBuf>,
    connection: Arc<Mutex<Connection>>,
}

impl Lane {
    fn new(schema: &'static Schema, path: Option<PathBuf>, connection: Connection) -> Self {
        Self { schema, path, connection: Arc::new(Mutex::new(connection)) }
    }

    /// A lane that reads the same database. In memory it is the same lane.
    fn beside(&self) -> rusqlite::Result<Self> {
        let Some(path) = &self.path else { return Ok(self.clone()) };
        let connection = connect(self.schema, path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(Self::new(self.schema, Some(path.clone()), connection))
    }

    /// Runs `work` on one state of the database.
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
        let (called, patience) = (Instant::now(), self.schema.patience);
        let mut connection = self.connection.clone().lock_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            connection.busy_timeout(patience.saturating_sub(called.elapsed()))?;
            work(&mut connection)
        });
        let done = done.await.map_err(|panic| {
            StorageError::other(format!("a call of {} failed: {panic}", self.schema.file))
        })?;
        done.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> StorageError {
        if let Some(path) = self.path.as_ref().filter(|_| damage::is_corrupt(error)) {
            damage::suspect(path, error);
        }
        StorageError::other(damage::told(self.schema.file, error))
    }
}

fn connect_writer(schema: &Schema, path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let writer = connect(schema, path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    writer.pragma_update(None, "page_size", schema.page_size)?;
    use_write_ahead_log(schema, &writer)?;
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    writer.pragma_update(None, "synchronous", synchronous)?;
    writer.pragma_update(None, "wal_autocheckpoint", checkpoint::MOST_PAGES)?;
    Ok(writer)
}

/// Of several processes that open a new file, one makes the log. SQLite does not let the others wait for it.
fn use_write_ahead_log(schema: &Schema, writer: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        let done = writer.pragma_update(None, "journal_mode", "WAL");
        let busy = done.as_ref().is_err_and(|error| {
            error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < schema.patience
        });
        if !busy {
            return done;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn connect(schema: &Schema, path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    prepare(&connection, schema.patience)?;
    Ok(connection)
}

fn prepare(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(patience)?;
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
        patience: Duration::from_millis(20),
        page_size: 4096,
        migrations: &["CREATE TABLE numbers (number INTEGER)"],
    };

    fn insert(db: &Connection) -> rusqlite::Result<usize> {
        db.execute("INSERT INTO numbers VALUES (1)", [])
    }

    #[tokio::test]
    async fn whoever_waits_too_long_for_a_lock_is_told_whose_fault_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&SCHEMA, folder.path(), Durability::Process).unwrap();
        let other = Connection::open(folder.path().join(SCHEMA.file)).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let message = database.write(insert).await.unwrap_err().to_string();
        assert!(message.starts_with("some.db: database is locked: another process"), "{message}");
        assert!(database.health().await.is_err(), "what can only be read is not healthy");
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(database.health().await, Ok(()));
        assert_eq!(database.write(insert).await, Ok(1));
    }

    #[tokio::test]
    async fn a_write_to_a_file_that_was_taken_away_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&SCHEMA, folder.path(), Durability::Process).unwrap();
        let path = folder.path().join(SCHEMA.file);
        std::fs::rename(&path, folder.path().join("aside.db")).unwrap();
        for _ in 0..2 {
            for told in [database.health().await, database.write(insert).await.map(|_| ())] {
                let message = told.unwrap_err().to_string();
                assert!(message.contains("restart the server"), "{message}");
            }
            std::fs::write(&path, "another file").unwrap();
        }
    }
}
