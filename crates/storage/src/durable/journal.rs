//! The write-ahead journal of running logs: append-only segment files, one frame and one `write` per batch.
//!
//! A segment is deleted once no running prompt has a frame in it. A prompt that would pin an old segment has its log
//! copied forward into the active one, so the journal's size is bounded. Where writes must survive a power failure,
//! concurrent batches share one `fdatasync` ([`GroupSync`]).

mod frame;
mod group_sync;
mod pending_sync;
mod recovery;
mod segment_file;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{Batch, PromptId};

pub(crate) use group_sync::GroupSync;
use pending_sync::{FilesToSync, PendingSync};
pub(crate) use recovery::recover;
use segment_file::ActiveSegment;
pub(crate) use segment_file::delete_segment;

use super::{Durability, log_codec};

/// Size of the block that tests whether writing works again: more than a full disk has left by accident.
const PROBE_BYTES: usize = 64 * 1024;

/// The bounds of the journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalLimits {
    /// A segment that has grown to this size is closed, and a new one begun.
    pub segment_bytes: u64,
    /// Logs are copied forward to keep all segments together below this size, or below twice the size of the
    /// running logs if that is more.
    pub journal_bytes: u64,
}

/// The segment files and the running logs.
pub(crate) struct SegmentJournal {
    folder: PathBuf,
    limits: JournalLimits,
    durability: Durability,
    state: Mutex<JournalState>,
}

#[derive(Default)]
struct JournalState {
    /// Where frames are appended; none before the first one, and after a fault.
    active: Option<ActiveSegment>,
    next_number: u64,
    /// Closed segments by number, with their sizes.
    closed: BTreeMap<u64, u64>,
    running: HashMap<PromptId, RunningLog>,
    /// The frame that is being written. Reused for its allocation.
    frame: Vec<u8>,
    /// Sequence number of the last write, so that a sync can say which writes it covers.
    sequence: u64,
    pending_sync: PendingSync,
    /// A write or a sync failed, and no probe has succeeded since.
    has_failed: bool,
}

/// The log of a running prompt, from its first event. Its readers share the batches, so it takes no memory of its own.
struct RunningLog {
    /// The first batch is stored with the claim, the others in segments.
    batches: Vec<Batch>,
    /// Size of its frames.
    bytes: u64,
    /// The segment with its first frame.
    oldest_segment: Option<u64>,
}

impl RunningLog {
    fn next_position(&self) -> u64 {
        self.batches.last().and_then(|batch| batch.last()).map_or(0, |last| last.position + 1)
    }
}

/// A write that has reached the operating system.
pub(crate) struct AppendReceipt {
    /// Its sequence number, to wait for the sync that covers it.
    pub(crate) sequence: u64,
    /// Segments that are no longer needed, for the caller to delete.
    pub(crate) obsolete: Vec<PathBuf>,
}

impl SegmentJournal {
    /// Creates an empty journal in a folder. Segments that are there already must have been recovered.
    pub(crate) fn create(folder: &Path, limits: JournalLimits, durability: Durability) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        if durability == Durability::Power {
            File::open(folder.parent().unwrap_or(folder))?.sync_all()?;
        }
        let next_number = segment_file::numbers_in(folder)?.last().map_or(1, |last| last + 1);
        let state = JournalState { next_number, ..JournalState::default() };
        Ok(Self { folder: folder.to_owned(), limits, durability, state: Mutex::new(state) })
    }

    /// Starts the log of a prompt. Its first batch is stored with the claim.
    pub(crate) fn start(&self, prompt: PromptId, beginning: Batch) {
        let log = RunningLog { batches: vec![beginning], bytes: 0, oldest_segment: None };
        self.state().running.insert(prompt, log);
    }

    /// Appends a batch; none if it does not continue a running log. When this returns, the batch survives the death
    /// of the process.
    pub(crate) fn append(&self, prompt: PromptId, batch: Batch) -> io::Result<Option<AppendReceipt>> {
        let mut state = self.state();
        let next = state.running.get(&prompt).map(RunningLog::next_position);
        if next.is_none() || next != batch.first().map(|first| first.position) {
            return Ok(None);
        }
        self.write(&mut state, prompt, std::slice::from_ref(&batch))?;
        state.running_log(prompt).batches.push(batch);
        Ok(Some(state.receipt()))
    }

    /// Takes back what was appended to a log from this position on. Its frame stays in the segment; recovery
    /// replaces it with the next frame of the log.
    pub(crate) fn retract(&self, prompt: PromptId, position: u64) {
        if let Some(log) = self.state().running.get_mut(&prompt) {
            log.batches.retain(|batch| batch.first().is_some_and(|first| first.position < position));
        }
    }

    /// Appends the end that readers see when the history could not store one: always to the log in memory, and to
    /// the segment if that can be written.
    pub(crate) fn append_end(&self, prompt: PromptId, end: Batch) -> Option<AppendReceipt> {
        let mut state = self.state();
        if !state.running.contains_key(&prompt) {
            return None;
        }
        let written = self.write(&mut state, prompt, std::slice::from_ref(&end));
        state.running_log(prompt).batches.push(end);
        written.ok().map(|()| state.receipt())
    }

    /// The whole log of a running prompt.
    pub(crate) fn log(&self, prompt: PromptId) -> Option<Vec<Batch>> {
        self.state().running.get(&prompt).map(|log| log.batches.clone())
    }

    /// Removes the log of a prompt that the history has stored. Returns the segments that are no longer needed.
    pub(crate) fn remove(&self, prompt: PromptId) -> Vec<PathBuf> {
        let mut state = self.state();
        state.running.remove(&prompt);
        self.retire_segments(&mut state);
        state.pending_sync.take_obsolete()
    }

    /// Whether a write or a sync failed, and no probe has succeeded since.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Tests whether frames can be written, with a block that is truncated away again. Returns its sequence number,
    /// so that it can be synced like a frame.
    pub(crate) fn probe(&self) -> io::Result<u64> {
        let mut state = self.state();
        if state.pending_sync.failed_recently() {
            // Each failed probe leaves a file behind.
            return Err(io::Error::other("what was written a moment ago did not reach the disk"));
        }
        self.ensure_segment(&mut state)?;
        let active = state.active.as_ref().expect("a segment was ensured").file.clone();
        let written = (&*active).write_all(&[0; PROBE_BYTES]);
        truncate_to_last_frame(&mut state).and(written)?;
        if self.durability == Durability::Power {
            state.pending_sync.add(&active);
        }
        state.has_failed = false;
        state.sequence += 1;
        Ok(state.sequence)
    }

    /// Begins a sync: the last write that it covers, and the files for the caller to sync. The caller reports the
    /// outcome with `sync_succeeded` or `sync_failed`.
    pub(crate) fn begin_sync(&self) -> (u64, FilesToSync) {
        let mut state = self.state();
        (state.sequence, state.pending_sync.begin_sync())
    }

    /// The files are on the disk. Returns the segments that are no longer needed.
    pub(crate) fn sync_succeeded(&self) -> Vec<PathBuf> {
        self.state().pending_sync.sync_succeeded()
    }

    /// A sync failed: the content of its files is unknown, so nothing is appended to them any more, and the running
    /// logs are written again. Returns the last write that may be lost.
    pub(crate) fn sync_failed(&self) -> u64 {
        let mut state = self.state();
        state.has_failed = true;
        state.pending_sync.sync_failed();
        state.close_active();
        state.sequence
    }

    #[cfg(test)]
    pub(crate) fn add_file_to_sync(&self, file: File) {
        self.state().pending_sync.add(&std::sync::Arc::new(file));
    }

    /// Size of all segments.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        let state = self.state();
        state.closed.values().sum::<u64>() + state.active.as_ref().map_or(0, |active| active.length)
    }

    fn write(&self, state: &mut JournalState, prompt: PromptId, batches: &[Batch]) -> io::Result<()> {
        let written = self.ensure_segment(state).and_then(|()| self.write_frame(state, prompt, batches));
        state.has_failed |= written.is_err();
        written
    }

    fn write_frame(&self, state: &mut JournalState, prompt: PromptId, batches: &[Batch]) -> io::Result<()> {
        let JournalState { active: Some(active), running, frame, sequence, pending_sync, .. } = state else {
            unreachable!("a segment was ensured")
        };
        frame::encode(frame, prompt, |body| {
            batches.iter().for_each(|batch| log_codec::encode(batch, body));
        });
        if let Err(error) = (&*active.file).write_all(frame) {
            // Part of the frame may have been written.
            let _ = truncate_to_last_frame(state);
            return Err(error);
        }
        active.length += frame.len() as u64;
        *sequence += 1;
        let log = running.get_mut(&prompt).expect("only running logs are written");
        log.bytes += frame.len() as u64;
        log.oldest_segment.get_or_insert(active.number);
        if self.durability == Durability::Power {
            pending_sync.add(&active.file);
        }
        Ok(())
    }

    /// Ensures that there is an active segment with room, and that after a failed sync the running logs have been
    /// written again.
    fn ensure_segment(&self, state: &mut JournalState) -> io::Result<()> {
        let is_full = |active: &ActiveSegment| active.length - active.copied >= self.limits.segment_bytes;
        if state.active.as_ref().is_none_or(is_full) {
            self.open_segment(state)?;
        } else if !state.pending_sync.must_rewrite() {
            return Ok(());
        }
        self.copy_forward(state)?;
        self.retire_segments(state);
        Ok(())
    }

    fn open_segment(&self, state: &mut JournalState) -> io::Result<()> {
        let number = state.next_number;
        state.next_number += 1;
        let segment = ActiveSegment::create(&self.folder, number)?;
        if self.durability == Durability::Power {
            match File::open(&self.folder) {
                Ok(folder) => state.pending_sync.add_folder(folder),
                Err(error) => {
                    delete_segment(&segment_file::path(&self.folder, number));
                    return Err(error);
                }
            }
        }
        state.close_active();
        state.active = Some(segment);
        Ok(())
    }

    /// Copies logs into the active segment, whole, until the segments that are still needed leave room for a new
    /// one within the journal's bound. The logs that pin the oldest segments go first; after a failed sync, all do.
    fn copy_forward(&self, state: &mut JournalState) -> io::Result<()> {
        let running: u64 = state.running.values().map(|log| log.bytes).sum();
        let allowed = self.limits.journal_bytes.max(2 * running);
        let mut bytes = state.closed.values().sum::<u64>() + self.limits.segment_bytes;
        let mut pinning = Vec::new();
        for (number, length) in &state.closed {
            if bytes <= allowed && !state.pending_sync.must_rewrite() {
                break;
            }
            for (prompt, log) in state.running.iter().filter(|(_, log)| log.oldest_segment == Some(*number)) {
                pinning.push(*prompt);
                bytes += log.bytes;
            }
            bytes -= length;
        }
        for prompt in pinning {
            let log = state.running_log(prompt);
            let (before, appended) = ((log.oldest_segment.take(), log.bytes), log.batches[1..].to_vec());
            log.bytes = 0;
            if let Err(error) = self.write_frame(state, prompt, &appended) {
                let log = state.running_log(prompt);
                (log.oldest_segment, log.bytes) = before;
                return Err(error);
            }
        }
        state.pending_sync.rewritten();
        if let Some(active) = &mut state.active {
            active.copied = active.length;
        }
        Ok(())
    }

    /// Retires the closed segments before the first one that a running prompt needs. They may be deleted once what
    /// was copied out of them is on the disk.
    fn retire_segments(&self, state: &mut JournalState) {
        let needed = state.running.values().filter_map(|log| log.oldest_segment).min().unwrap_or(u64::MAX);
        let kept = state.closed.split_off(&needed);
        let retired = std::mem::replace(&mut state.closed, kept);
        let paths = retired.into_keys().map(|number| segment_file::path(&self.folder, number));
        state.pending_sync.retire(paths);
    }

    /// A poisoned lock is still good: every change of the state is complete before anything can panic.
    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalState {
    /// The log of a prompt that runs, as was checked under the same lock.
    fn running_log(&mut self, prompt: PromptId) -> &mut RunningLog {
        self.running.get_mut(&prompt).expect("the prompt runs")
    }

    fn receipt(&mut self) -> AppendReceipt {
        AppendReceipt { sequence: self.sequence, obsolete: self.pending_sync.take_obsolete() }
    }

    fn close_active(&mut self) {
        self.closed.extend(self.active.take().map(|segment| (segment.number, segment.length)));
    }
}

/// Cuts the active segment behind its last whole frame. A segment that cannot be cut is closed.
fn truncate_to_last_frame(state: &mut JournalState) -> io::Result<()> {
    let truncated = state.active.as_ref().map_or(Ok(()), |active| active.file.set_len(active.length));
    if truncated.is_err() {
        state.close_active();
    }
    truncated
}

#[cfg(test)]
mod tests;
