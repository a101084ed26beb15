//! Grouped syncs: whoever waits for the disk waits together.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::segments::Segments;

/// Brings what was written to the disk itself.
#[derive(Default)]
pub(crate) struct Syncer {
    /// Writes that want to be synced.
    written: AtomicU64,
    /// So many of them are. Held while a sync is under way, so that the next one takes in all who came
    /// meanwhile.
    synced: Mutex<u64>,
}

impl Syncer {
    /// Returns when everything written before the call is on the disk.
    pub(crate) async fn sync(&self, segments: &Segments) -> io::Result<()> {
        let mine = self.written.fetch_add(1, Ordering::SeqCst) + 1;
        let mut synced = self.synced.lock().await;
        if *synced >= mine {
            return Ok(());
        }
        let written = self.written.load(Ordering::SeqCst);
        let files = segments.take_unsynced();
        let syncing = files.clone();
        let done =
            tokio::task::spawn_blocking(move || syncing.iter().try_for_each(|file| file.sync_data())).await;
        let done = done.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        match done {
            Ok(()) => *synced = written,
            Err(_) => segments.mark_unsynced(files),
        }
        done
    }
}
