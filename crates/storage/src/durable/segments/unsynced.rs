//! What may not have reached the disk itself, and the segments that must not be deleted before it has. Where
//! nobody waits for the disk, there is never anything unsynced, and segments go at once.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nobody tries whether syncing works again.
const MOMENT: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct Unsynced {
    files: Files,
    /// Segments that nobody needs once all that was written is on the disk.
    replaced: Vec<PathBuf>,
    /// Somebody is bringing things to the disk; when that is done, nobody needs these.
    syncing: Option<Vec<PathBuf>>,
    /// That failed, then: what is in the segments so far may be lost, and must be written anew.
    in_doubt_since: Option<Instant>,
}

/// Files with something that is not on the disk.
#[derive(Default)]
pub(crate) struct Files {
    segments: Vec<Arc<File>>,
    /// The folder of a new segment, whose name is on the disk once the folder is.
    folder: Option<File>,
}

impl Files {
    /// Brings everything to the disk. If it fails, nobody can know what is in the files, and trying again
    /// proves nothing: the system may have forgotten it, and would report success.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.folder.as_ref().map_or(Ok(()), File::sync_all)?;
        self.segments.iter().try_for_each(|file| file.sync_data())
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.segments.len() + self.folder.iter().count()
    }

    fn are_none(&self) -> bool {
        self.segments.is_empty() && self.folder.is_none()
    }
}

impl Unsynced {
    /// Something was written to a segment.
    pub(super) fn add(&mut self, segment: &Arc<File>) {
        if !self.files.segments.iter().any(|file| Arc::ptr_eq(file, segment)) {
            self.files.segments.push(segment.clone());
        }
    }

    /// A segment was made in this folder.
    pub(super) fn add_folder(&mut self, folder: File) {
        self.files.folder = Some(folder);
    }

    /// Nobody needs these segments, as soon as what replaces them is on the disk.
    pub(super) fn hold_back(&mut self, unneeded: impl IntoIterator<Item = PathBuf>) {
        self.replaced.extend(unneeded);
    }

    /// The segments that nobody needs any more.
    pub(super) fn release(&mut self) -> Vec<PathBuf> {
        if self.syncing.is_some() || self.in_doubt_since.is_some() || !self.files.are_none() {
            return Vec::new();
        }
        std::mem::take(&mut self.replaced)
    }

    pub(super) fn begin_sync(&mut self) -> Files {
        // While what replaces them has to be written anew, they may be the only good copies.
        let covered = if self.is_in_doubt() { Vec::new() } else { std::mem::take(&mut self.replaced) };
        self.syncing = Some(covered);
        std::mem::take(&mut self.files)
    }

    /// Gives out the segments that nobody needs any more.
    pub(super) fn synced(&mut self) -> Vec<PathBuf> {
        self.syncing.take().unwrap_or_default()
    }

    pub(super) fn sync_failed(&mut self) {
        self.replaced.extend(self.syncing.take().unwrap_or_default());
        self.in_doubt_since = Some(Instant::now());
        // What came meanwhile went to files of which nobody can know what is in them.
        self.files = Files::default();
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt_since.is_some()
    }

    /// Whether a sync failed only a moment ago.
    pub(super) fn failed_just_now(&self) -> bool {
        self.in_doubt_since.is_some_and(|since| since.elapsed() < MOMENT)
    }

    /// All that runs has been written anew.
    pub(super) fn written_anew(&mut self) {
        self.in_doubt_since = None;
    }
}
