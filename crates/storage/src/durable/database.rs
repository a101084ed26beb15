//! `history.db`: one connection that writes and one that reads, each used by one call at a time and never on
//! a thread of the runtime; and one for checkpoints.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{StorageError, Timestamp};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tokio::sync::Mutex;
use tracing::error;

use super::checkpoint::{self, Checkpoints};
use super::{Durability, migrations};

/// How long a call waits for somebody else's lock on the file, its time in the queue included: however many
/// calls wait, each is told in time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The database.
pub(crate) struct Database {
    path: PathBuf,
    /// Closed before the writer, which tidies up if it is the last.
    checkpoints: Checkpoints,
    reader: Arc<Mutex<Connection>>,
    writer: Arc<Mutex<Connection>>,
}

/// Why a database cannot be used.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file is no sound database.
    Damaged(String),
    /// Something else, which may pass.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Damaged(reason) | Self::Other(reason)) = self;
        f.write_str(reason)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        let reason = format!("history.db: {error}");
        if is_corrupt(&error) { Self::Damaged(reason) } else { Self::Other(reason) }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

impl Database {
    /// Opens the database, and brings its tables up to date.
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Self, Fault> {
        let mut writer = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::Process => "NORMAL",
            Durability::Power => "FULL",
        };
        writer.pragma_update(None, "synchronous", synchronous)?;
        writer.pragma_update(None, "wal_autocheckpoint", checkpoint::MOST_PAGES)?;
        writer.pragma_update(None, "foreign_keys", true)?;
        check_if_suspect(path, &writer)?;
        migrations::run(&mut writer)?;
        let reader = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let checkpoints = Checkpoints::start(connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?)?;
        let [reader, writer] = [reader, writer].map(|connection| Arc::new(Mutex::new(connection)));
        Ok(Self { path: path.to_owned(), checkpoints, reader, writer })
    }

    /// Runs `work` on the connection that writes, in a transaction: all of it happens, or nothing.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let written = self.blocking(&self.writer, |connection| in_transaction(connection, work)).await;
        self.checkpoints.wake();
        written
    }

    /// The same on the calling thread, before anybody else uses the database.
    pub(crate) fn write_now<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut connection = self.writer.try_lock().expect("nobody else uses the database yet");
        in_transaction(&mut connection, work)
    }

    /// Runs `work` on the connection that reads, on one state of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        self.blocking(&self.reader, |connection| {
            let transaction = connection.transaction()?;
            work(&transaction)
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        connection: &Arc<Mutex<Connection>>,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StorageError> {
        let called = Instant::now();
        let mut connection = connection.clone().lock_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            connection.busy_timeout(PATIENCE.saturating_sub(called.elapsed()))?;
            work(&mut connection)
        });
        let done =
            done.await.map_err(|panic| StorageError(format!("a call of history.db failed: {panic}")))?;
        done.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> StorageError {
        if is_corrupt(error) {
            suspect(&self.path, error);
        }
        StorageError(format!("history.db: {error}"))
    }
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
    error!(path = %aside.display(), reason, "the history database is damaged: it was set aside and a new one begun");
    Ok(())
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
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

fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// The name of the note that a database is to be checked, behind the database's own.
const SUSPECT: &str = ".suspect";

/// Notes that damage has shown. Checking all of a database takes too long for every start, so only the next
/// one does.
fn suspect(path: &Path, error: &rusqlite::Error) {
    let note = beside(path, SUSPECT);
    if !note.exists() {
        let noted = std::fs::write(&note, error.to_string()).is_ok();
        error!(path = %path.display(), %error, noted, "the history database is damaged: restart the server, which sets it aside");
    }
}

fn check_if_suspect(path: &Path, connection: &Connection) -> Result<(), Fault> {
    let note = beside(path, SUSPECT);
    if !note.exists() {
        return Ok(());
    }
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
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
