//! What may not have reached the disk yet, and the obsolete segments that must outlive it. With
//! `Durability::Process` nothing is ever pending, and obsolete segments can be deleted at once.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long after a failed sync no probe is made.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct PendingSync {
    files: FilesToSync,
    /// Retired segments. They are obsolete once everything written so far is on the disk.
    retired: Vec<PathBuf>,
    /// While a sync runs: the retired segments that are obsolete if it succeeds.
    syncing: Option<Vec<PathBuf>>,
    /// When a sync failed. The content of the segments is unknown until the running logs have been written again.
    failed_at: Option<Instant>,
}

/// Files with writes that may not be on the disk.
#[derive(Default)]
pub(crate) struct FilesToSync {
    segments: Vec<Arc<File>>,
    /// The folder of a new segment, whose entry is on the disk once the folder is synced.
    folder: Option<File>,
}

impl FilesToSync {
    /// Syncs everything. After a failure the content of the files is unknown, and trying again proves nothing: the
    /// kernel may have dropped the dirty pages, and would report success.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.folder.as_ref().map_or(Ok(()), File::sync_all)?;
        self.segments.iter().try_for_each(|file| file.sync_data())
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.segments.len() + self.folder.iter().count()
    }

    fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.folder.is_none()
    }
}

impl PendingSync {
    /// Adds a segment that was written to.
    pub(super) fn add(&mut self, segment: &Arc<File>) {
        if !self.files.segments.iter().any(|file| Arc::ptr_eq(file, segment)) {
            self.files.segments.push(segment.clone());
        }
    }

    /// Adds the folder in which a segment was created.
    pub(super) fn add_folder(&mut self, folder: File) {
        self.files.folder = Some(folder);
    }

    /// Retires segments: they are obsolete once their replacements are on the disk.
    pub(super) fn retire(&mut self, segments: impl IntoIterator<Item = PathBuf>) {
        self.retired.extend(segments);
    }

    /// The retired segments, if nothing is pending any more.
    pub(super) fn take_obsolete(&mut self) -> Vec<PathBuf> {
        if self.syncing.is_some() || self.failed_at.is_some() || !self.files.is_empty() {
            return Vec::new();
        }
        std::mem::take(&mut self.retired)
    }

    pub(super) fn begin_sync(&mut self) -> FilesToSync {
        // Until the running logs have been written again, retired segments may be the only good copies.
        let covered = if self.must_rewrite() { Vec::new() } else { std::mem::take(&mut self.retired) };
        self.syncing = Some(covered);
        std::mem::take(&mut self.files)
    }

    /// Returns the segments that are obsolete now.
    pub(super) fn sync_succeeded(&mut self) -> Vec<PathBuf> {
        self.syncing.take().unwrap_or_default()
    }

    pub(super) fn sync_failed(&mut self) {
        self.retired.extend(self.syncing.take().unwrap_or_default());
        self.failed_at = Some(Instant::now());
        // Writes made during the sync went to the same files, whose content is unknown.
        self.files = FilesToSync::default();
    }

    /// Whether a sync failed and the running logs have not been written again since.
    pub(super) fn must_rewrite(&self) -> bool {
        self.failed_at.is_some()
    }

    pub(super) fn failed_recently(&self) -> bool {
        self.failed_at.is_some_and(|failed_at| failed_at.elapsed() < PROBE_INTERVAL)
    }

    /// The running logs have been written again.
    pub(super) fn rewritten(&mut self) {
        self.failed_at = None;
    }
}
