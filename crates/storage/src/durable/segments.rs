//! The running logs on disk: append-only segment files. A record is its length, the crc32c of what follows,
//! the prompt's id and one encoded batch; one write each. A segment is deleted when no running prompt needs
//! it; a prompt that would pin an old one is copied forward, so the journal's size is bounded.

mod recovery;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::PromptId;
pub(crate) use recovery::{Recovered, recover};

/// What every segment begins with: a magic word and the format's number.
const HEADER: [u8; 8] = *b"WSJ\0\x01\0\0\0";

/// What is written to see whether writing works again: more than a disk has left by accident.
const PROBE_BYTES: usize = 64 * 1024;

/// Length and checksum before, and the prompt's id in, every record.
const RECORD_HEAD: usize = 8;
const PROMPT_ID: usize = 16;

/// The bounds of the journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalLimits {
    /// A segment is closed when it has grown to this size.
    pub segment_bytes: u64,
    /// The journal is kept below this size by copying forward what pins its oldest segment.
    pub journal_bytes: u64,
}

/// The journal's files and the logs that are running.
pub(crate) struct Segments {
    folder: PathBuf,
    limits: JournalLimits,
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
    /// Segments with records that may not have reached the disk itself.
    unsynced: Vec<Arc<File>>,
    /// The last write failed.
    has_failed: bool,
}

struct Segment {
    number: u64,
    file: Arc<File>,
    length: u64,
}

/// A log that is running: all of it, encoded, from its first event.
struct RunningLog {
    encoded: Vec<u8>,
    /// So much of the beginning is kept elsewhere, with the claim.
    claimed: usize,
    /// The segment with its first record.
    oldest: Option<u64>,
}

impl Segments {
    /// An empty journal in a folder; what was there before must have been recovered.
    pub(crate) fn create(folder: &Path, limits: JournalLimits) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let next_number = numbers_in(folder)?.last().map_or(1, |last| last + 1);
        let state = State { next_number, ..State::default() };
        Ok(Self { folder: folder.to_owned(), limits, state: Mutex::new(state) })
    }

    /// Whether records can be written. After a failure that is tried out, with a block that is taken back, so
    /// that nobody starts what cannot be kept.
    pub(crate) fn check(&self) -> io::Result<()> {
        let mut state = self.state();
        if !state.has_failed {
            return Ok(());
        }
        self.room(&mut state)?;
        let active = state.active.as_ref().expect("there is a segment to write to");
        let written = (&*active.file).write_all(&[0; PROBE_BYTES]);
        active.file.set_len(active.length)?;
        written?;
        state.has_failed = false;
        Ok(())
    }

    /// A prompt begins to run; the beginning of its log is kept with its claim.
    pub(crate) fn start(&self, prompt: PromptId, beginning: Vec<u8>) {
        let log = RunningLog { claimed: beginning.len(), encoded: beginning, oldest: None };
        self.state().running.insert(prompt, log);
    }

    /// Appends a batch. It survives the process when this returns. Gives back how long the log was before;
    /// none if the prompt is not running.
    pub(crate) fn append(
        &self,
        prompt: PromptId,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<Option<usize>> {
        let mut state = self.state();
        let Some(log) = state.running.get_mut(&prompt) else { return Ok(None) };
        let before = log.encoded.len();
        encode(&mut log.encoded);
        let written = self.room(&mut state).and_then(|()| write(&mut state, prompt, before));
        state.has_failed = written.is_err();
        if let Err(error) = written {
            state.running.get_mut(&prompt).expect("it was found just now").encoded.truncate(before);
            return Err(error);
        }
        Ok(Some(before))
    }

    /// Takes back what was appended to a log since it had this length.
    pub(crate) fn retract(&self, prompt: PromptId, length: usize) {
        if let Some(log) = self.state().running.get_mut(&prompt) {
            log.encoded.truncate(length);
        }
    }

    /// The whole log of a running prompt, encoded.
    pub(crate) fn log(&self, prompt: PromptId) -> Option<Vec<u8>> {
        self.state().running.get(&prompt).map(|log| log.encoded.clone())
    }

    /// A prompt has ended and its log is kept elsewhere; gives out the files that nobody needs any more.
    pub(crate) fn finish(&self, prompt: PromptId) -> Vec<PathBuf> {
        let mut state = self.state();
        state.running.remove(&prompt);
        self.unneeded(&mut state)
    }

    /// The files with records that may not have reached the disk itself; they are the caller's to sync.
    pub(crate) fn take_unsynced(&self) -> Vec<Arc<File>> {
        std::mem::take(&mut self.state().unsynced)
    }

    /// Files that could not be synced and must be before anything counts as synced.
    pub(crate) fn mark_unsynced(&self, files: Vec<Arc<File>>) {
        self.state().unsynced.extend(files);
    }

    /// Sees to it that there is a segment to write to.
    fn room(&self, state: &mut State) -> io::Result<()> {
        if state.active.as_ref().is_some_and(|active| active.length < self.limits.segment_bytes) {
            return Ok(());
        }
        let number = state.next_number;
        let path = path_of(&self.folder, number);
        let mut file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        state.next_number += 1;
        if let Err(error) = file.write_all(&HEADER) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        state.closed.extend(state.active.take().map(|segment| (segment.number, segment.length)));
        state.active = Some(Segment { number, file: Arc::new(file), length: HEADER.len() as u64 });
        self.copy_forward(state)
    }

    /// Keeps the journal below its bound: the logs that pin the oldest segments are written anew into the
    /// active one, whole, until what is left is small enough.
    fn copy_forward(&self, state: &mut State) -> io::Result<()> {
        let mut excess = state.closed.values().sum::<u64>().saturating_sub(self.limits.journal_bytes);
        let mut pinning = Vec::new();
        for (number, length) in &state.closed {
            if excess == 0 {
                break;
            }
            let pins =
                |(prompt, log): (&PromptId, &RunningLog)| (log.oldest == Some(*number)).then_some(*prompt);
            pinning.extend(state.running.iter().filter_map(pins));
            excess = excess.saturating_sub(*length);
        }
        for prompt in pinning {
            let log = state.running.get_mut(&prompt).expect("it was found just now");
            let (oldest, claimed) = (log.oldest.take(), log.claimed);
            if let Err(error) = write(state, prompt, claimed) {
                state.running.get_mut(&prompt).expect("it was found just now").oldest = oldest;
                return Err(error);
            }
        }
        for path in self.unneeded(state) {
            remove(&path);
        }
        Ok(())
    }

    /// Closed segments before the first that a running prompt needs.
    fn unneeded(&self, state: &mut State) -> Vec<PathBuf> {
        let needed = state.running.values().filter_map(|log| log.oldest).min().unwrap_or(u64::MAX);
        let kept = state.closed.split_off(&needed);
        let unneeded = std::mem::replace(&mut state.closed, kept);
        unneeded.into_keys().map(|number| path_of(&self.folder, number)).collect()
    }

    /// Every change of the state is whole before anything can panic, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what a prompt's log has from `from` on as one record.
fn write(state: &mut State, prompt: PromptId, from: usize) -> io::Result<()> {
    let State { active: Some(active), running, record, unsynced, .. } = state else {
        unreachable!("there is a segment to write to")
    };
    let log = running.get_mut(&prompt).expect("only running logs are written");
    fill_record(record, prompt, &log.encoded[from..]);
    if let Err(error) = (&*active.file).write_all(record) {
        // Part of the record may be there. If it cannot be cut off, nothing may follow it.
        if active.file.set_len(active.length).is_err() {
            state.closed.extend(state.active.take().map(|segment| (segment.number, segment.length)));
        }
        return Err(error);
    }
    active.length += record.len() as u64;
    log.oldest.get_or_insert(active.number);
    if !unsynced.iter().any(|file| Arc::ptr_eq(file, &active.file)) {
        unsynced.push(active.file.clone());
    }
    Ok(())
}

/// Deletes a segment. One that stays is only read once more by the next recovery.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a journal segment that is not needed cannot be deleted");
    }
}

fn fill_record(record: &mut Vec<u8>, prompt: PromptId, batches: &[u8]) {
    record.clear();
    record.extend([0; RECORD_HEAD]);
    record.extend(prompt.0.as_bytes());
    record.extend(batches);
    let body = &record[RECORD_HEAD..];
    let length = u32::try_from(body.len()).expect("a log is far smaller than 4 GiB");
    let checksum = crc32c::crc32c(body);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[4..RECORD_HEAD].copy_from_slice(&checksum.to_le_bytes());
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
