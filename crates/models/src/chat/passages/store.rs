//! States that were computed before: in memory, and in files if there is a folder for them. A thread of its own writes
//! the files and keeps their order; whoever computes never waits for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use domain::PrefixCacheStats;

use super::disk::{self, Disk, Place};
use super::key::Key;
use super::memory::Memory;
use super::state::State;
use crate::chat::Keep;

/// Notes that the thread has not taken yet.
const MOST_NOTES: usize = 1_024;

/// Bytes of states that wait to be written; more are not written, and would be computed again one day. Passages of one
/// prompt are computed together and wait together, so that it is many times what one has.
const MOST_WAITING_BYTES: u64 = 256 << 20;

/// States by their keys.
pub(crate) struct Store {
    memory: Memory,
    files: Option<Files>,
    counts: Arc<Counts>,
}

/// What is told about the store.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) disk_bytes: AtomicU64,
    pub(crate) unread: AtomicU64,
}

impl Counts {
    pub(crate) fn told(&self) -> PrefixCacheStats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PrefixCacheStats {
            hits: of(&self.hits),
            misses: of(&self.misses),
            memory_bytes: of(&self.memory_bytes),
            disk_bytes: of(&self.disk_bytes),
            pending: of(&self.unread),
        }
    }
}

/// A folder of states as it is seen by who must not wait: what is in it can be read, and all else is told to a thread.
struct Files {
    folder: PathBuf,
    most_bytes: u64,
    notes: Option<SyncSender<Note>>,
    /// Bytes that wait to be written.
    waiting: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread that writes is told.
enum Note {
    Computed(Key, Arc<State>),
    Used(Key),
    Damaged(Key),
}

impl Store {
    /// Opens the folder, if there is one and something may be in it. If it cannot be used, memory has to do.
    pub(crate) fn open(folder: Option<PathBuf>, keep: Keep, counts: Arc<Counts>) -> Self {
        // The other half is for conversations.
        let memory = Memory::new(keep.memory_bytes / 2);
        let files = folder.filter(|_| keep.disk_bytes > 0).and_then(|folder| {
            let opened = Files::open(&folder, keep.disk_bytes, counts.clone());
            let told = opened.inspect_err(|error| {
                tracing::warn!("{}: {error}: kept passages do not survive a restart", folder.display());
            });
            told.ok()
        });
        Self { memory, files, counts }
    }

    /// A state, wherever it is.
    pub(crate) fn find(&mut self, key: Key) -> Option<Arc<State>> {
        if let Some(state) = self.memory.get(key) {
            self.note_used(key);
            return Some(state);
        }
        let state = Arc::new(self.files.as_ref()?.read(key)?);
        self.remember(key, &state);
        Some(state)
    }

    /// Takes note that a state was used without being looked for in a file, so that its file does not count as one that
    /// nobody has used for long.
    pub(crate) fn note_used(&self, key: Key) {
        if let Some(files) = &self.files {
            files.tell(Note::Used(key));
        }
    }

    /// Takes note of how many are to be computed.
    pub(crate) fn note_unread(&self, states: usize) {
        self.counts.unread.store(states as u64, Ordering::Relaxed);
    }

    /// The same for a prompt, which is counted.
    pub(crate) fn get(&mut self, key: Key) -> Option<Arc<State>> {
        let found = self.find(key);
        let count = if found.is_some() { &self.counts.hits } else { &self.counts.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether a state is there, without using it. It may yet turn out to be damaged.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.memory.has(key) || self.files.as_ref().is_some_and(|files| files.has(key))
    }

    /// Takes a state in, and has it written.
    pub(crate) fn put(&mut self, key: Key, state: &Arc<State>) {
        self.remember(key, state);
        if let Some(files) = &self.files {
            files.write(key, state.clone());
        }
    }

    /// Whether there is room for so many more bytes without anything going.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        match &self.files {
            Some(files) => {
                let taken =
                    self.counts.disk_bytes.load(Ordering::Relaxed) + files.waiting.load(Ordering::Relaxed);
                taken + bytes <= files.most_bytes
            }
            None => self.memory.has_room(bytes),
        }
    }

    /// Whether a state of so many bytes can be kept at all.
    pub(crate) fn can_hold(&self, bytes: u64) -> bool {
        self.memory.can_hold(bytes) || self.files.as_ref().is_some_and(|files| bytes <= files.most_bytes)
    }

    fn remember(&mut self, key: Key, state: &Arc<State>) {
        self.memory.put(key, state.clone());
        self.counts.memory_bytes.store(self.memory.bytes() as u64, Ordering::Relaxed);
    }
}

impl Files {
    fn open(folder: &Path, most_bytes: u64, counts: Arc<Counts>) -> io::Result<Self> {
        let disk = Disk::open(folder.to_owned(), most_bytes)?;
        counts.disk_bytes.store(disk.bytes(), Ordering::Relaxed);
        let (notes, taken) = sync_channel(MOST_NOTES);
        let waiting = Arc::new(AtomicU64::new(0));
        let work = {
            let waiting = waiting.clone();
            move || keep(disk, &taken, &waiting, &counts)
        };
        let thread = thread::Builder::new().name("chat-states".to_owned()).spawn(work)?;
        Ok(Self { folder: folder.to_owned(), most_bytes, notes: Some(notes), waiting, thread: Some(thread) })
    }

    fn read(&self, key: Key) -> Option<State> {
        match disk::read(&self.folder, key) {
            Place::Has(state) => {
                self.tell(Note::Used(key));
                Some(state)
            }
            Place::Damaged => {
                tracing::warn!("{} was damaged and is deleted", disk::path(&self.folder, key).display());
                self.tell(Note::Damaged(key));
                None
            }
            Place::Empty => None,
        }
    }

    fn has(&self, key: Key) -> bool {
        disk::path(&self.folder, key).exists()
    }

    fn write(&self, key: Key, state: Arc<State>) {
        let (size, waiting) = (disk::size(&state), self.waiting.load(Ordering::Relaxed));
        // A single one may be as large as it is.
        if waiting == 0 || waiting + size <= MOST_WAITING_BYTES {
            self.waiting.fetch_add(size, Ordering::Relaxed);
            if !self.tell(Note::Computed(key, state)) {
                self.waiting.fetch_sub(size, Ordering::Relaxed);
            }
        }
    }

    /// Whether there was room for it.
    fn tell(&self, note: Note) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.try_send(note).is_ok())
    }
}

impl Drop for Files {
    /// Waits until what was put in is written.
    fn drop(&mut self) {
        self.notes = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps the folder as it is told.
fn keep(mut disk: Disk, notes: &Receiver<Note>, waiting: &AtomicU64, counts: &Counts) {
    let mut failing = false;
    while let Ok(note) = notes.recv() {
        match note {
            Note::Used(key) => disk.note_used(key),
            Note::Damaged(key) => disk.remove(key),
            Note::Computed(key, state) => {
                let written = disk.put(key, &state);
                waiting.fetch_sub(disk::size(&state), Ordering::Relaxed);
                if let Err(error) = &written
                    && !failing
                {
                    tracing::warn!("what was read of a passage is kept in memory alone: {error}");
                }
                failing = written.is_err();
            }
        }
        counts.disk_bytes.store(disk.bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1_000;

    fn key(number: i32) -> Key {
        Key::of_model(&[]).followed_by(&[number])
    }

    fn state() -> Arc<State> {
        Arc::new(State { tokens: 3, bytes: vec![7; SIZE] })
    }

    #[test]
    fn what_is_served_from_memory_counts_as_used_in_its_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep {
            passages: true,
            put_off: false,
            memory_bytes: 1 << 20,
            disk_bytes: 3 * disk::size(&state()),
        };
        let mut store = Store::open(Some(folder.path().to_owned()), keep, Arc::default());
        (1..=3).for_each(|number| store.put(key(number), &state()));
        assert!(store.find(key(1)).is_some());
        store.put(key(4), &state());
        drop(store);
        let is_there = [1, 2, 3, 4].map(|number| disk::path(folder.path(), key(number)).exists());
        assert_eq!(is_there, [true, false, true, true]);
    }

    #[test]
    fn memory_and_files_stay_within_their_bytes_whatever_comes() {
        let folder = tempfile::tempdir().unwrap();
        let keep =
            Keep { passages: true, put_off: false, memory_bytes: 100 * SIZE, disk_bytes: 200 * SIZE as u64 };
        let counts: Arc<Counts> = Arc::default();
        let mut store = Store::open(Some(folder.path().to_owned()), keep, counts.clone());
        for number in 0..10_000 {
            store.put(key(number), &state());
            let PrefixCacheStats { memory_bytes, disk_bytes, .. } = counts.told();
            assert!(memory_bytes <= 50 * SIZE as u64 && disk_bytes <= keep.disk_bytes, "{number}");
        }
        drop(store);
        let disk = Disk::open(folder.path().to_owned(), u64::MAX).unwrap();
        assert!(disk.bytes() <= keep.disk_bytes && disk.bytes() > keep.disk_bytes / 2, "{}", disk.bytes());
    }
}
