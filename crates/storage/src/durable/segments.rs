//! The running logs on disk: append-only segment files, one write a batch. A segment is deleted when no
//! running prompt needs it; a prompt that would pin an old one is copied forward, so the journal's size is
//! bounded.

mod frame;
mod recovery;
mod unsynced;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Batch, PromptId};
use frame::HEADER;
pub(crate) use recovery::recover;
pub(crate) use unsynced::Files;
use unsynced::Unsynced;

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
    /// A write failed, and none has been tried out since.
    has_failed: bool,
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
        self.write(&mut state, prompt, std::slice::from_ref(&batch))?;
        state.running_log(prompt).batches.push(batch);
        Ok(Some(Appended { record: state.written, unneeded: state.unsynced.release() }))
    }

    /// Takes back what was appended to a log from this position on. In its segment it stays until the next
    /// record of the log takes its place.
    pub(crate) fn retract(&self, prompt: PromptId, position: u64) {
        if let Some(log) = self.state().running.get_mut(&prompt) {
            log.batches.retain(|batch| batch.first().is_some_and(|first| first.position < position));
        }
    }

    /// Appends the end that readers are told of: to the log in any case, and to its segment if that works.
    pub(crate) fn conclude(&self, prompt: PromptId, last: Batch) -> Option<Appended> {
        let mut state = self.state();
        if !state.running.contains_key(&prompt) {
            return None;
        }
        let written = self.write(&mut state, prompt, std::slice::from_ref(&last));
        state.running_log(prompt).batches.push(last);
        written.ok().map(|()| Appended { record: state.written, unneeded: state.unsynced.release() })
    }

    /// The whole log of a running prompt.
    pub(crate) fn log(&self, prompt: PromptId) -> Option<Vec<Batch>> {
        self.state().running.get(&prompt).map(|log| log.batches.clone())
    }

    /// A prompt has ended and its log is kept elsewhere; gives out the files that nobody needs any more.
    pub(crate) fn finish(&self, prompt: PromptId) -> Vec<PathBuf> {
        let mut state = self.state();
        state.running.remove(&prompt);
        self.hold_back_unneeded(&mut state);
        state.unsynced.release()
    }

    /// Whether a write failed, and none has been tried out since.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Tries out whether records can be written, with a block that is taken back. Gives out its number, as if
    /// it were a record.
    pub(crate) fn try_out(&self) -> io::Result<u64> {
        let mut state = self.state();
        if state.unsynced.failed_just_now() {
            // Each try that fails leaves a file behind.
            return Err(io::Error::other("what was written a moment ago did not reach the disk"));
        }
        self.room(&mut state)?;
        let active = state.active.as_ref().expect("there is a segment to write to").file.clone();
        let written = (&*active).write_all(&[0; PROBE_BYTES]);
        cut_back(&mut state).and(written)?;
        if self.durability == Durability::Power {
            state.unsynced.add(&active);
        }
        state.has_failed = false;
        state.written += 1;
        Ok(state.written)
    }

    /// The last record so far, and the files in which all of them are; they are the caller's to sync, and it
    /// tells what came of it.
    pub(crate) fn begin_sync(&self) -> (u64, Files) {
        let mut state = self.state();
        (state.written, state.unsynced.begin_sync())
    }

    /// All of it is on the disk; gives out the files that nobody needs any more.
    pub(crate) fn synced(&self) -> Vec<PathBuf> {
        self.state().unsynced.synced()
    }

    /// It did not reach the disk. Nobody can know what is in those files now, so nothing may follow there, and
    /// what runs is written anew. Gives out the last record that may be lost.
    pub(crate) fn sync_failed(&self) -> u64 {
        let mut state = self.state();
        state.has_failed = true;
        state.unsynced.sync_failed();
        close_active(&mut state);
        state.written
    }

    /// One more file to sync.
    #[cfg(test)]
    pub(crate) fn add_unsynced(&self, file: File) {
        self.state().unsynced.add(&Arc::new(file));
    }

    /// Bytes of all segments.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        let state = self.state();
        state.closed.values().sum::<u64>() + state.active.as_ref().map_or(0, |active| active.length)
    }

    fn write(&self, state: &mut State, prompt: PromptId, batches: &[Batch]) -> io::Result<()> {
        let written = self.room(state).and_then(|()| self.write_record(state, prompt, batches));
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
        if self.durability == Durability::Power {
            unsynced.add(&active.file);
        }
        Ok(())
    }

    /// Sees to it that there is a segment to write to, and that what runs is in segments that are not in doubt.
    fn room(&self, state: &mut State) -> io::Result<()> {
        let is_full = |active: &Segment| active.length - active.copied >= self.limits.segment_bytes;
        if state.active.as_ref().is_none_or(is_full) {
            self.open_segment(state)?;
        } else if !state.unsynced.is_in_doubt() {
            return Ok(());
        }
        self.copy_forward(state)?;
        self.hold_back_unneeded(state);
        Ok(())
    }

    fn open_segment(&self, state: &mut State) -> io::Result<()> {
        let number = state.next_number;
        state.next_number += 1;
        let path = path_of(&self.folder, number);
        let mut file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        if let Err(error) = file.write_all(&HEADER).and_then(|()| self.note_new_file(state)) {
            remove(&path);
            return Err(error);
        }
        close_active(state);
        state.active = Some(Segment { number, file: Arc::new(file), length: HEADER.len() as u64, copied: 0 });
        Ok(())
    }

    fn note_new_file(&self, state: &mut State) -> io::Result<()> {
        if self.durability == Durability::Power {
            state.unsynced.add_folder(File::open(&self.folder)?);
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
            if bytes <= allowed && !state.unsynced.is_in_doubt() {
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
        state.unsynced.written_anew();
        if let Some(active) = &mut state.active {
            active.copied = active.length;
        }
        Ok(())
    }

    /// Closed segments before the first that a running prompt needs are not needed, once what was copied from
    /// them is on the disk.
    fn hold_back_unneeded(&self, state: &mut State) {
        let needed = state.running.values().filter_map(|log| log.oldest).min().unwrap_or(u64::MAX);
        let kept = state.closed.split_off(&needed);
        let unneeded = std::mem::replace(&mut state.closed, kept);
        state.unsynced.hold_back(unneeded.into_keys().map(|number| path_of(&self.folder, number)));
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
