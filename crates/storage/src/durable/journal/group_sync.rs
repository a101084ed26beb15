//! Group commit: concurrent batches share one `fdatasync`.

use std::io;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::{SegmentJournal, delete_segment};

/// Syncs the journal for all batches that wait.
pub(crate) struct GroupSync {
    journal: Arc<SegmentJournal>,
    /// Locked while a sync runs, so that the next one covers every batch that arrived meanwhile.
    progress: Arc<Mutex<SyncProgress>>,
}

#[derive(Default)]
struct SyncProgress {
    /// Writes up to this one are on the disk, unless they failed.
    synced: u64,
    /// Writes up to this one may be lost.
    failed: u64,
    failure: Option<Arc<io::Error>>,
    /// How many syncs there were.
    syncs: u64,
}

impl GroupSync {
    pub(crate) fn new(journal: Arc<SegmentJournal>) -> Self {
        Self { journal, progress: Arc::default() }
    }

    /// Waits until the write with this sequence number is on the disk. A write whose sync failed is not synced
    /// again: the kernel may have dropped its dirty pages, and would report success.
    pub(crate) async fn sync(&self, sequence: u64) -> io::Result<()> {
        let mut progress = self.progress.clone().lock_owned().await;
        if sequence > progress.synced.max(progress.failed) {
            let journal = self.journal.clone();
            let syncing = tokio::task::spawn_blocking(move || {
                progress.sync(&journal);
                progress
            });
            progress = syncing.await.map_err(io::Error::other)?;
        }
        match &progress.failure {
            Some(failure) if sequence <= progress.failed => {
                Err(io::Error::new(failure.kind(), failure.clone()))
            }
            _ => Ok(()),
        }
    }
}

impl SyncProgress {
    fn sync(&mut self, journal: &SegmentJournal) {
        let (up_to, files) = journal.begin_sync();
        match files.sync() {
            Ok(()) => {
                journal.sync_succeeded().iter().for_each(|path| delete_segment(path));
                self.synced = up_to;
            }
            Err(error) => {
                self.failed = journal.sync_failed();
                self.failure = Some(Arc::new(error));
            }
        }
        self.syncs += 1;
        tracing::trace!(up_to, syncs = self.syncs, failed = self.failed, "the journal was synced");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::pin::pin;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::task::{Context, Waker};

    use domain::{Batch, Event, PromptId, Step, Timestamp};
    use tempfile::TempDir;

    use super::*;
    use crate::Durability;
    use crate::durable::JournalLimits;

    const NOW: Timestamp = Timestamp::from_micros(1);

    struct SyncedJournal {
        journal: Arc<SegmentJournal>,
        group_sync: Arc<GroupSync>,
        prompt: PromptId,
        position: AtomicU64,
        _folder: TempDir,
    }

    impl SyncedJournal {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let limits = JournalLimits { segment_bytes: 10_000, journal_bytes: 40_000 };
            let journal = Arc::new(SegmentJournal::create(folder.path(), limits, Durability::Power).unwrap());
            let (prompt, position) = (PromptId::new(NOW), AtomicU64::new(0));
            journal.start(prompt, Batch::default());
            let group_sync = Arc::new(GroupSync::new(journal.clone()));
            Self { group_sync, journal, prompt, position, _folder: folder }
        }

        fn append(&self) -> u64 {
            let step = Step::Text("text".into());
            let event = Event { position: self.position.fetch_add(1, Relaxed), at: NOW, step };
            self.journal.append(self.prompt, [event].into()).unwrap().unwrap().sequence
        }

        async fn syncs(&self) -> u64 {
            self.group_sync.progress.lock().await.syncs
        }
    }

    #[tokio::test]
    async fn batches_that_wait_share_one_sync() {
        let journal = SyncedJournal::new();
        let mut waiting = Vec::new();
        for _ in 0..1_000 {
            let (group_sync, sequence) = (journal.group_sync.clone(), journal.append());
            waiting.push(tokio::spawn(async move { group_sync.sync(sequence).await }));
        }
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
        assert_eq!(journal.syncs().await, 1, "all were written before the first sync");
        let sequence = journal.append();
        journal.group_sync.sync(sequence).await.unwrap();
        assert_eq!(journal.syncs().await, 2);
    }

    #[tokio::test]
    async fn a_failed_sync_fails_every_write_it_covers_and_none_after_it() {
        let journal = SyncedJournal::new();
        let writes = [journal.append(), journal.append()];
        // A pipe cannot be synced.
        let pipe = OwnedFd::from(io::pipe().unwrap().1);
        journal.journal.add_file_to_sync(File::from(pipe));
        for sequence in writes {
            journal.group_sync.sync(sequence).await.unwrap_err();
        }
        assert_eq!(journal.syncs().await, 1, "a failed sync is not tried again");
        assert!(journal.journal.has_failed());

        let sequence = journal.append();
        journal.group_sync.sync(sequence).await.unwrap();
        journal.group_sync.sync(writes[0]).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_sync_goes_on_after_its_waiter_was_dropped() {
        let journal = SyncedJournal::new();
        let sequence = journal.append();
        let dropped = pin!(journal.group_sync.sync(sequence)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(dropped.is_pending());
        journal.group_sync.sync(sequence).await.unwrap();
        assert_eq!(journal.syncs().await, 1);
    }
}
