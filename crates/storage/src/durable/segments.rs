//! The running logs on disk: append-only segment files, one write a batch. A segment is deleted when no
//! running prompt needs it; a prompt that would pin an old one is copied forward, so the journal's size is
//! bounded.

mod frame;
mod recovery;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Batch, PromptId};
use frame::HEADER;
pub(crate) use recovery::recover;

use super::{Durability, codec};

/// What is written to see whether writing works again: more than a disk has left by accident.
const PROBE_BYTES: usize = 64 * 1024;

/// The bounds of the journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalLimits {
    /// A segment is closed when it has grown to this size.
    pub segment_bytes: u64,
    /// The journal is kept to this size by copying forward what pins its oldest segments; or to twice what the
    /// running logs have all together, should that be more.
    pub journal_bytes: u64,
}

/// The journal's files and the logs that are running.
pub(crate) struct Segments {
    folder: PathBuf,
    limits: JournalLimits,
    durability: Durability,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where records go; none before the first, and after a fault.
    active: Option<Segment>,
    next_number: u64,
    /// Closed segments and their sizes.
    closed: BTreeMap<u64, u64>,
    running: HashMap<PromptId, RunningLog>,
    /// The record that is being written, kept for its memory.
    record: Vec<u8>,
    /// Records written so far, so that a sync can tell which it took in.
    written: u64,
    unsynced: Unsynced,
    /// Somebody is bringing things to the disk itself.
    syncing: bool,
    /// A write failed, and none has been tried out since.
    has_failed: bool,
    /// A sync failed: what is in the segments so far may be lost.
    is_in_doubt: bool,
}

struct Segment {
    number: u64,
    file: Arc<File>,
    length: u64,
    /// So much of it was copied from others.
    copied: u64,
}

/// A log that is running, from its first event. Its readers share the batches, so they cost nothing here.
struct RunningLog {
    /// The first one is kept with the claim, the others are in segments.
    batches: Vec<Batch>,
    /// Bytes of its records.
    bytes: u64,
    /// The segment with its first record.
    oldest: Option<u64>,
}

impl RunningLog {
    fn next_position(&self) -> u64 {
        self.batches.last().and_then(|batch| batch.last()).map_or(0, |last| last.position + 1)
    }
}

/// What may not have reached the disk itself. Always empty where it need not.
#[derive(Default)]
pub(crate) struct Unsynced {
    /// The last record in it.
    pub(crate) up_to: u64,
    /// Segments, and the folder of a new one.
    pub(crate) files: Vec<Arc<File>>,
    /// Segments that nobody needs once all that is on the disk.
    pub(crate) replaced: Vec<PathBuf>,
}

/// What appending did.
pub(crate) struct Appended {
    /// The number of its record.
    pub(crate) record: u64,
    /// Files that nobody needs any more; they are the caller's to delete.
    pub(crate) unneeded: Vec<PathBuf>,
}

impl Segments {
    /// An empty journal in a folder; what was there before must have been recovered.
    pub(crate) fn create(folder: &Path, limits: JournalLimits, durability: Durability) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        if durability == Durability::Power {
            File::open(folder.parent().unwrap_or(folder))?.sync_all()?;
        }
        let next_number = numbers_in(folder)?.last().map_or(1, |last| last + 1);
        let state = State { next_number, ..State::default() };
        Ok(Self { folder: folder.to_owned(), limits, durability, state: Mutex::new(state) })
    }

    /// A prompt begins to run; the beginning of its log is kept with its claim.
    pub(crate) fn start(&self, prompt: PromptId, beginning: Batch) {
        let log = RunningLog { batches: vec![beginning], bytes: 0, oldest: None };
        self.state().running.insert(prompt, log);
    }

    /// Appends a batch; none if it does not continue a running log. It survives the process when this returns.
    pub(crate) fn append(&self, prompt: PromptId, batch: Batch) -> io::Result<Option<Appended>> {
        let mut state = self.state();
        let next = state.running.get(&prompt).map(RunningLog::next_position);
        if next.is_none() || next != batch.first().map(|first| first.position) {
            return Ok(None);
        }
        let unneeded = self.write(&mut state, prompt, std::slice::from_ref(&batch))?;
        state.running_log(prompt).batches.push(batch);
        Ok(Some(Appended { record: state.written, unneeded }))
    }

    /// Takes back what was appended to a log from this position on. In its segment it stays until the next
    /// record of the log takes its place.
    pub(crate) fn retract(&self, prompt: PromptId, position: u64) {
        if let Some(log) = self.state().running.get_mut(&prompt) {
            log.batches.retain(|batch| batch.first().is_some_and(|first| first.position < position));
        }
    }

    /// Appends the end that readers are told of: to the log in any case, and to its segment if that works.
    /// Gives out the files that nobody needs any more.
    pub(crate) fn conclude(&self, prompt: PromptId, last: Batch) -> Vec<PathBuf> {
        let mut state = self.state();
        if !state.running.contains_key(&prompt) {
            return Vec::new();
        }
        let unneeded = self.write(&mut state, prompt, std::slice::from_ref(&last)).unwrap_or_default();
        state.running_log(prompt).batches.push(last);
        unneeded
    }

    /// The whole log of a running prompt.
    pub(crate) fn log(&self, prompt: PromptId) -> Option<Vec<Batch>> {
        self.state().running.get(&prompt).map(|log| log.batches.clone())
    }

    /// A prompt has ended and its log is kept elsewhere; gives out the files that nobody needs any more.
    pub(crate) fn finish(&self, prompt: PromptId) -> Vec<PathBuf> {
        let mut state = self.state();
        state.running.remove(&prompt);
        self.unneeded(&mut state)
    }

    /// Whether a write failed, and none has been tried out since.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Tries out whether records can be written, with a block that is taken back. Gives out its number, as if
    /// it were a record.
    pub(crate) fn try_out(&self) -> io::Result<u64> {
        let mut state = self.state();
        for path in self.room(&mut state)? {
            remove(&path);
        }
        let active = state.active.as_ref().expect("there is a segment to write to");
        let written = (&*active.file).write_all(&[0; PROBE_BYTES]);
        cut_back(&mut state).and(written)?;
        state.has_failed = false;
        state.written += 1;
        Ok(state.written)
    }

    /// What may not have reached the disk itself; it is the caller's to sync, and to tell what came of it.
    pub(crate) fn begin_sync(&self) -> Unsynced {
        let mut state = self.state();
        state.syncing = true;
        Unsynced { up_to: state.written, ..std::mem::take(&mut state.unsynced) }
    }

    /// All of it is on the disk.
    pub(crate) fn synced(&self) {
        self.state().syncing = false;
    }

    /// It did not reach the disk. Nobody can know what is in those files now, so nothing may follow there, and
    /// what runs is written anew.
    pub(crate) fn sync_failed(&self, replaced: Vec<PathBuf>) {
        let mut state = self.state();
        state.syncing = false;
        state.has_failed = true;
        state.is_in_doubt = true;
        state.unsynced.replaced.extend(replaced);
        close_active(&mut state);
    }

    /// One more file to sync.
    #[cfg(test)]
    pub(crate) fn add_unsynced(&self, file: File) {
        self.state().unsynced.files.push(Arc::new(file));
    }

    /// Bytes of all segments.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        let state = self.state();
        state.closed.values().sum::<u64>() + state.active.as_ref().map_or(0, |active| active.length)
    }

    /// Writes batches of a prompt's log; gives out the files that nobody needs any more.
    fn write(&self, state: &mut State, prompt: PromptId, batches: &[Batch]) -> io::Result<Vec<PathBuf>> {
        let written = self.room(state).and_then(|unneeded| {
            self.write_record(state, prompt, batches)?;
            Ok(unneeded)
        });
        state.has_failed |= written.is_err();
        written
    }

    fn write_record(&self, state: &mut State, prompt: PromptId, batches: &[Batch]) -> io::Result<()> {
        let State { active: Some(active), running, record, written, unsynced, .. } = state else {
            unreachable!("there is a segment to write to")
        };
        frame::fill(record, prompt, |body| batches.iter().for_each(|batch| codec::encode(batch, body)));
        if let Err(error) = (&*active.file).write_all(record) {
            // Part of the record may be there.
            let _ = cut_back(state);
            return Err(error);
        }
        active.length += record.len() as u64;
        *written += 1;
        let log = running.get_mut(&prompt).expect("only running logs are written");
        log.bytes += record.len() as u64;
        log.oldest.get_or_insert(active.number);
        let is_new = || !unsynced.files.iter().any(|file| Arc::ptr_eq(file, &active.file));
        if self.durability == Durability::Power && is_new() {
            unsynced.files.push(active.file.clone());
        }
        Ok(())
    }

    /// Sees to it that there is a segment to write to; gives out the files that nobody needs any more.
    fn room(&self, state: &mut State) -> io::Result<Vec<PathBuf>> {
        let is_full = |active: &Segment| active.length - active.copied >= self.limits.segment_bytes;
        if state.active.as_ref().is_some_and(|active| !is_full(active)) {
            return Ok(Vec::new());
        }
        let number = state.next_number;
        let path = path_of(&self.folder, number);
        let mut file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        state.next_number += 1;
        if let Err(error) = file.write_all(&HEADER).and_then(|()| self.note_new_file(state)) {
            remove(&path);
            return Err(error);
        }
        close_active(state);
        state.active = Some(Segment { number, file: Arc::new(file), length: HEADER.len() as u64, copied: 0 });
        self.copy_forward(state)?;
        Ok(self.unneeded(state))
    }

    /// A new file's name is on the disk once its folder is.
    fn note_new_file(&self, state: &mut State) -> io::Result<()> {
        if self.durability == Durability::Power {
            state.unsynced.files.push(Arc::new(File::open(&self.folder)?));
        }
        Ok(())
    }

    /// Keeps the journal to its bound, with room for a whole new segment: the logs that pin the oldest ones
    /// are written anew into the active one, whole, until what is left is small enough.
    fn copy_forward(&self, state: &mut State) -> io::Result<()> {
        let running: u64 = state.running.values().map(|log| log.bytes).sum();
        let allowed = self.limits.journal_bytes.max(2 * running);
        let mut bytes = state.closed.values().sum::<u64>() + self.limits.segment_bytes;
        let mut pinning = Vec::new();
        for (number, length) in &state.closed {
            if bytes <= allowed && !state.is_in_doubt {
                break;
            }
            for (prompt, log) in state.running.iter().filter(|(_, log)| log.oldest == Some(*number)) {
                pinning.push(*prompt);
                bytes += log.bytes;
            }
            bytes -= length;
        }
        for prompt in pinning {
            let log = state.running_log(prompt);
            let (before, appended) = ((log.oldest.take(), log.bytes), log.batches[1..].to_vec());
            log.bytes = 0;
            if let Err(error) = self.write_record(state, prompt, &appended) {
                let log = state.running_log(prompt);
                (log.oldest, log.bytes) = before;
                return Err(error);
            }
        }
        state.is_in_doubt = false;
        if let Some(active) = &mut state.active {
            active.copied = active.length;
        }
        Ok(())
    }

    /// Closed segments before the first that a running prompt needs. What was copied from them must be on
    /// the disk before they go.
    fn unneeded(&self, state: &mut State) -> Vec<PathBuf> {
        let needed = state.running.values().filter_map(|log| log.oldest).min().unwrap_or(u64::MAX);
        let kept = state.closed.split_off(&needed);
        let unneeded = std::mem::replace(&mut state.closed, kept);
        let unneeded = unneeded.into_keys().map(|number| path_of(&self.folder, number));
        if state.syncing || !state.unsynced.files.is_empty() {
            state.unsynced.replaced.extend(unneeded);
            return Vec::new();
        }
        unneeded.chain(std::mem::take(&mut state.unsynced.replaced)).collect()
    }

    /// Every change of the state is whole before anything can panic, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The log of a prompt that was found to be running under the same lock.
    fn running_log(&mut self, prompt: PromptId) -> &mut RunningLog {
        self.running.get_mut(&prompt).expect("it was found just now")
    }
}

/// Takes what is behind the last whole record off the active segment. If that fails, nothing may follow there.
fn cut_back(state: &mut State) -> io::Result<()> {
    let cut = state.active.as_ref().map_or(Ok(()), |active| active.file.set_len(active.length));
    if cut.is_err() {
        close_active(state);
    }
    cut
}

fn close_active(state: &mut State) {
    state.closed.extend(state.active.take().map(|segment| (segment.number, segment.length)));
}

/// Deletes a segment. One that stays is only read once more by the next recovery.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a journal segment that is not needed cannot be deleted");
    }
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.log"))
}

/// The numbers of the segments in a folder, ascending.
fn numbers_in(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_suffix(".log"))
            .and_then(|number| number.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests;
