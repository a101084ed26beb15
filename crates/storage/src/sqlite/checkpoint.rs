//! Checkpoints: a thread that copies the write-ahead log into the database. A checkpoint takes a while and waits
//! for the disk, and no writer should wait for it.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tracing::warn;

/// The log is checkpointed from this many pages on: 16 or 32 MiB, depending on the page size. Checkpoints are rare,
/// and reading the log again after a crash takes no time.
const CHECKPOINT_PAGES: i64 = 4_096;

/// From this many pages on a writer checkpoints by itself, so that the log is bounded.
pub(super) const AUTOCHECKPOINT_PAGES: i64 = 4 * CHECKPOINT_PAGES;

/// SQLite restarts the log only once all of it has been copied. Each pass copies what was written during the one
/// before, so the rest shrinks.
const PASSES: usize = 4;

/// The checkpoint thread. It ends when this is dropped.
pub(super) struct CheckpointThread {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CheckpointThread {
    pub(super) fn start(file: &'static str, connection: Connection) -> io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let thread = thread::Builder::new().name("checkpoints".to_owned());
        let thread = thread.spawn(move || run(file, &connection, &woken))?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }

    /// Wakes the thread after a write. A wake-up that is still pending covers this one.
    pub(super) fn wake(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
    }
}

impl Drop for CheckpointThread {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(file: &str, connection: &Connection, woken: &Receiver<()>) {
    let mut works = true;
    while woken.recv().is_ok() {
        let done = checkpoint(connection);
        if let (true, Err(error)) = (works, &done) {
            warn!(%error, file, "the checkpoint of a database failed");
        }
        works = done.is_ok();
    }
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    if pages_left(connection, "NOOP")? < CHECKPOINT_PAGES {
        return Ok(());
    }
    for _ in 0..PASSES {
        if pages_left(connection, "PASSIVE")? == 0 {
            break;
        }
    }
    Ok(())
}

/// Runs a checkpoint in this mode, and counts the pages of the log that are not in the database yet.
fn pages_left(connection: &Connection, mode: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_copies_the_log_into_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        writer.execute_batch("CREATE TABLE blobs (body BLOB)").unwrap();
        let checkpoints = CheckpointThread::start("some.db", Connection::open(&path).unwrap()).unwrap();
        for _ in 0..20 {
            // A thousand pages each.
            writer.execute("INSERT INTO blobs VALUES (zeroblob(4096000))", []).unwrap();
            checkpoints.wake();
        }
        drop(checkpoints);
        assert!(pages_left(&writer, "NOOP").unwrap() < CHECKPOINT_PAGES);
        assert!(std::fs::metadata(&path).unwrap().len() > 4_096_000);
    }
}
