//! Brings what the write-ahead log has into the database: on a thread of its own, because it takes a while
//! and waits for the disk, and nobody who writes shall wait with it.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tracing::warn;

/// How much waits in the log before it is brought over: 16 or 32 MiB, as pages are small or large, so that it is
/// rarely done and reading the log again after a crash takes no time.
const PAGES: i64 = 4_096;

/// A writer that finds a log of this many pages brings them over itself, so that the log is bounded.
pub(super) const MOST_PAGES: i64 = 4 * PAGES;

/// The log begins anew only when all of it has been brought over, so what was written meanwhile is brought
/// over too: a little, then less.
const PASSES: usize = 4;

/// The thread, until dropped.
pub(super) struct Checkpoints {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn start(file: &'static str, connection: Connection) -> io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let thread = thread::Builder::new().name("checkpoints".to_owned());
        let thread = thread.spawn(move || run(file, &connection, &woken))?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }

    /// Something was written. If the thread has heard so already, once is enough.
    pub(super) fn wake(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Checkpoints {
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
        let done = bring_over(connection);
        if let (true, Err(error)) = (works, &done) {
            warn!(%error, file, "the write-ahead log of a database could not be brought into it");
        }
        works = done.is_ok();
    }
}

fn bring_over(connection: &Connection) -> rusqlite::Result<()> {
    if waiting(connection, "NOOP")? < PAGES {
        return Ok(());
    }
    for _ in 0..PASSES {
        if waiting(connection, "PASSIVE")? == 0 {
            break;
        }
    }
    Ok(())
}

/// Makes a checkpoint of this kind, and tells how many pages wait in the log after it.
fn waiting(connection: &Connection, kind: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |row| {
        Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_brought_over_and_little_is_left_in_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        writer.execute_batch("CREATE TABLE blobs (body BLOB)").unwrap();
        let checkpoints = Checkpoints::start("some.db", Connection::open(&path).unwrap()).unwrap();
        for _ in 0..20 {
            // A thousand pages each.
            writer.execute("INSERT INTO blobs VALUES (zeroblob(4096000))", []).unwrap();
            checkpoints.wake();
        }
        drop(checkpoints);
        assert!(waiting(&writer, "NOOP").unwrap() < PAGES);
        assert!(std::fs::metadata(&path).unwrap().len() > 4_096_000);
    }
}
