//! States that were computed before: in memory, and in files if there is a folder for them. Whoever puts one in does
//! not wait for the file: a thread writes it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use domain::KeptPassages;

use super::disk::{self, Disk};
use super::key::Key;
use super::memory::Memory;
use super::state::State;
use crate::chat::Keep;

/// States that wait to be written, and their bytes; more are not written, and would be computed again after a restart.
const MOST_WAITING: (usize, u64) = (1_024, 32 << 20);

/// States by their keys.
pub(crate) struct Store {
    memory: Memory,
    disk: Option<Arc<Mutex<Disk>>>,
    writer: Option<Writer>,
    counts: Arc<Counts>,
}

/// What is told about the store.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) disk_bytes: AtomicU64,
}

impl Counts {
    pub(crate) fn told(&self) -> KeptPassages {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        KeptPassages {
            hits: of(&self.hits),
            misses: of(&self.misses),
            memory_bytes: of(&self.memory_bytes),
            disk_bytes: of(&self.disk_bytes),
        }
    }
}

struct Writer {
    queue: Option<SyncSender<(Key, Arc<State>)>>,
    /// Bytes that are in it.
    waiting: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Opens the folder, if there is one and something may be in it. If it cannot be used, memory has to do.
    pub(crate) fn open(folder: Option<PathBuf>, keep: Keep, counts: Arc<Counts>) -> Self {
        // The other half is for conversations.
        let memory = Memory::new(keep.memory_bytes / 2);
        let disk = folder.filter(|_| keep.disk_bytes > 0).and_then(|folder| {
            let opened = Disk::open(folder.clone(), keep.disk_bytes);
            let told = opened.inspect_err(|error| {
                tracing::warn!("{}: {error}: kept passages do not survive a restart", folder.display());
            });
            told.ok().map(|disk| Arc::new(Mutex::new(disk)))
        });
        let writer = disk.as_ref().and_then(|disk| Writer::start(disk.clone(), counts.clone()));
        let store = Self { memory, disk, writer, counts };
        store.count_bytes();
        store
    }

    /// A state, wherever it is.
    pub(crate) fn find(&mut self, key: Key) -> Option<Arc<State>> {
        self.memory.get(key).or_else(|| {
            let state = Arc::new(lock(self.disk.as_ref()?).get(key)?);
            self.memory.put(key, state.clone());
            self.count_bytes();
            Some(state)
        })
    }

    /// The same for a prompt, which is counted.
    pub(crate) fn get(&mut self, key: Key) -> Option<Arc<State>> {
        let found = self.find(key);
        let count = if found.is_some() { &self.counts.hits } else { &self.counts.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether a state is there, without using it.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.memory.has(key) || self.disk.as_ref().is_some_and(|disk| lock(disk).has(key))
    }

    /// Takes a state in, and has it written.
    pub(crate) fn put(&mut self, key: Key, state: Arc<State>) {
        self.memory.put(key, state.clone());
        self.count_bytes();
        if let Some(writer) = &self.writer {
            writer.write(key, state);
        }
    }

    /// Whether there is room for so many more bytes without anything going.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        match &self.disk {
            Some(disk) => {
                let disk = lock(disk);
                disk.bytes() + bytes as u64 <= disk.most_bytes()
            }
            None => self.memory.has_room(bytes),
        }
    }

    fn count_bytes(&self) {
        self.counts.memory_bytes.store(self.memory.bytes() as u64, Ordering::Relaxed);
        if let Some(disk) = &self.disk {
            self.counts.disk_bytes.store(lock(disk).bytes(), Ordering::Relaxed);
        }
    }
}

impl Writer {
    fn start(disk: Arc<Mutex<Disk>>, counts: Arc<Counts>) -> Option<Self> {
        let (queue, states) = sync_channel(MOST_WAITING.0);
        let waiting = Arc::new(AtomicU64::new(0));
        let work = {
            let waiting = waiting.clone();
            move || write(&disk, &states, &waiting, &counts)
        };
        let started = thread::Builder::new().name("chat-states".to_owned()).spawn(work);
        let told = started.inspect_err(|error| {
            tracing::warn!("no thread can be started to write kept passages: {error}");
        });
        told.ok().map(|thread| Self { queue: Some(queue), waiting, thread: Some(thread) })
    }

    fn write(&self, key: Key, state: Arc<State>) {
        let size = disk::size(&state);
        let Some(queue) = &self.queue else { return };
        // Where the disk is too slow, it is computed again one day.
        if self.waiting.load(Ordering::Relaxed) + size <= MOST_WAITING.1 {
            self.waiting.fetch_add(size, Ordering::Relaxed);
            if queue.try_send((key, state)).is_err() {
                self.waiting.fetch_sub(size, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Writer {
    /// Waits until what was put in is written.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(disk: &Mutex<Disk>, states: &Receiver<(Key, Arc<State>)>, waiting: &AtomicU64, counts: &Counts) {
    let mut failing = false;
    while let Ok((key, state)) = states.recv() {
        waiting.fetch_sub(disk::size(&state), Ordering::Relaxed);
        if disk::size(&state) > lock(disk).most_bytes() {
            continue;
        }
        let path = lock(disk).path(key);
        let written = disk::write(&path, key, &state);
        let mut disk = lock(disk);
        match written.and_then(|()| disk.note_written(key, &state)) {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::warn!("{}: {error}: it is kept in memory alone", path.display());
            }
            Err(_) => {}
        }
        counts.disk_bytes.store(disk.bytes(), Ordering::Relaxed);
    }
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}
