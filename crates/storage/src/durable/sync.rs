//! Grouped syncs: whoever waits for the disk waits together.

use std::io;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::segments::{Segments, remove};

/// Brings what was written to the disk itself.
pub(crate) struct Syncer {
    segments: Arc<Segments>,
    /// Held while a sync is under way, so that the next one takes in all who came meanwhile.
    progress: Arc<Mutex<Progress>>,
}

#[derive(Default)]
struct Progress {
    /// Records up to this one are on the disk, if they did not fail.
    synced: u64,
    /// Records up to this one may be lost.
    failed: u64,
    failure: String,
    /// How often the disk was waited for.
    syncs: u64,
}

impl Syncer {
    pub(crate) fn new(segments: Arc<Segments>) -> Self {
        Self { segments, progress: Arc::default() }
    }

    /// Returns when this record is on the disk. One that a sync has failed to bring there is not tried again:
    /// the system may have forgotten it, and would report success.
    pub(crate) async fn sync(&self, record: u64) -> io::Result<()> {
        let mut progress = self.progress.clone().lock_owned().await;
        if record > progress.synced.max(progress.failed) {
            let segments = self.segments.clone();
            let syncing = tokio::task::spawn_blocking(move || {
                progress.sync(&segments);
                progress
            });
            progress = syncing.await.map_err(io::Error::other)?;
        }
        if record <= progress.failed {
            return Err(io::Error::other(progress.failure.clone()));
        }
        Ok(())
    }
}

impl Progress {
    fn sync(&mut self, segments: &Segments) {
        let (up_to, files) = segments.begin_sync();
        match files.sync() {
            Ok(()) => {
                segments.synced().iter().for_each(|path| remove(path));
                self.synced = up_to;
            }
            Err(error) => (self.failed, self.failure) = (segments.sync_failed(), error.to_string()),
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

    struct Journal {
        segments: Arc<Segments>,
        syncer: Arc<Syncer>,
        prompt: PromptId,
        position: AtomicU64,
        _folder: TempDir,
    }

    impl Journal {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let limits = JournalLimits { segment_bytes: 10_000, journal_bytes: 40_000 };
            let segments = Arc::new(Segments::create(folder.path(), limits, Durability::Power).unwrap());
            let (prompt, position) = (PromptId::new(NOW), AtomicU64::new(0));
            segments.start(prompt, Batch::default());
            let syncer = Arc::new(Syncer::new(segments.clone()));
            Self { syncer, segments, prompt, position, _folder: folder }
        }

        fn append(&self) -> u64 {
            let step = Step::Text("text".into());
            let event = Event { position: self.position.fetch_add(1, Relaxed), at: NOW, step };
            self.segments.append(self.prompt, [event].into()).unwrap().unwrap().record
        }

        async fn syncs(&self) -> u64 {
            self.syncer.progress.lock().await.syncs
        }
    }

    #[tokio::test]
    async fn many_who_wait_share_few_syncs() {
        let journal = Journal::new();
        let mut waiting = Vec::new();
        for _ in 0..1_000 {
            let (syncer, record) = (journal.syncer.clone(), journal.append());
            waiting.push(tokio::spawn(async move { syncer.sync(record).await }));
        }
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
        assert_eq!(journal.syncs().await, 1, "all were written before the first was waited for");
        let record = journal.append();
        journal.syncer.sync(record).await.unwrap();
        assert_eq!(journal.syncs().await, 2);
    }

    #[tokio::test]
    async fn a_sync_that_fails_fails_all_that_it_took_in_and_nothing_later() {
        let journal = Journal::new();
        let records = [journal.append(), journal.append()];
        // A pipe cannot be synced.
        let pipe = OwnedFd::from(io::pipe().unwrap().1);
        journal.segments.add_unsynced(File::from(pipe));
        for record in records {
            journal.syncer.sync(record).await.unwrap_err();
        }
        assert_eq!(journal.syncs().await, 1, "what failed is not tried again");
        assert!(journal.segments.has_failed());

        let record = journal.append();
        journal.syncer.sync(record).await.unwrap();
        journal.syncer.sync(records[0]).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_sync_goes_on_when_whoever_waited_for_it_has_left() {
        let journal = Journal::new();
        let record = journal.append();
        let left = pin!(journal.syncer.sync(record)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(left.is_pending());
        journal.syncer.sync(record).await.unwrap();
        assert_eq!(journal.syncs().await, 1);
    }
}
