//! The two tiers of the cache, and its counters.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use domain::PrefixCacheStats;

use super::disk::{DiskTier, file_bytes};
use super::key::CacheKey;
use super::kv_state::KvState;
use super::memory::MemoryTier;

/// The subfolder of the cache folder with the disk tier, and the one that earlier releases used.
const FOLDER: &str = "prefixes";
const OBSOLETE_FOLDER: &str = "states";

/// KV states by their keys: recently used ones in memory, and all in files if there is a folder for them.
pub(crate) struct Store {
    memory: MemoryTier,
    disk: Option<DiskTier>,
    write_failed: bool,
    counters: Arc<Counters>,
}

/// The counters of the cache, shared with the provider's status.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<PrefixCacheStats>);

impl Counters {
    pub(crate) fn stats(&self) -> PrefixCacheStats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update(&self, update: impl FnOnce(&mut PrefixCacheStats)) {
        update(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Store {
    /// Opens the disk tier in `cache`, if there is one and it may hold something. If the folder cannot be used, there is
    /// memory only.
    pub(crate) fn open(
        cache: Option<&Path>,
        memory_bytes: usize,
        disk_bytes: u64,
        counters: Arc<Counters>,
    ) -> Self {
        let disk = cache.filter(|_| disk_bytes > 0).and_then(|cache| {
            // Files of an obsolete format have no other reader.
            let _ = fs::remove_dir_all(cache.join(OBSOLETE_FOLDER));
            let opened = DiskTier::open(cache.join(FOLDER), disk_bytes);
            let warn = |error: &_| {
                tracing::warn!("{}: {error}: the prefix cache does not survive a restart", cache.display());
            };
            opened.inspect_err(warn).ok()
        });
        let store = Self { memory: MemoryTier::new(memory_bytes), disk, write_failed: false, counters };
        store.count_bytes();
        store
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A state, which becomes the most recently used in both tiers.
    pub(super) fn get(&mut self, key: CacheKey) -> Option<Arc<KvState>> {
        if let Some(state) = self.memory.get(key) {
            self.disk.iter().for_each(|disk| disk.touch(key));
            return Some(state);
        }
        let state = Arc::new(self.disk.as_mut()?.get(key)?);
        self.memory.put(key, state.clone());
        self.count_bytes();
        Some(state)
    }

    /// Whether a state is there. Its file may turn out to be damaged.
    pub(super) fn contains(&self, key: CacheKey) -> bool {
        self.memory.contains(key) || self.disk.as_ref().is_some_and(|disk| disk.contains(key))
    }

    /// Marks a state as used, without reading it.
    pub(super) fn touch(&mut self, key: CacheKey) {
        self.memory.get(key);
        self.disk.iter().for_each(|disk| disk.touch(key));
    }

    /// Adds a state to both tiers.
    pub(super) fn put(&mut self, key: CacheKey, state: KvState) {
        if let Some(disk) = &mut self.disk {
            let written = disk.put(key, &state);
            if let Err(error) = &written
                && !self.write_failed
            {
                tracing::warn!("KV states cannot be written to disk and are cached in memory only: {error}");
            }
            self.write_failed = written.is_err();
        }
        self.memory.put(key, Arc::new(state));
        self.count_bytes();
    }

    /// Upper bound on the bytes of all states. A disk that cannot be written to does not count.
    pub(super) fn capacity(&self) -> u64 {
        let disk = self.disk.as_ref().filter(|_| !self.write_failed);
        disk.map_or(0, DiskTier::max_bytes).max(self.memory.max_bytes())
    }

    /// Bytes that a state of this size takes of the capacity.
    pub(super) fn stored_bytes(&self, state: usize) -> u64 {
        file_bytes(state)
    }

    fn count_bytes(&self) {
        self.counters.update(|stats| {
            stats.memory_bytes = self.memory.bytes();
            stats.disk_bytes = self.disk.as_ref().map_or(0, DiskTier::bytes);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1_000;

    fn key(number: i32) -> CacheKey {
        CacheKey::of_model(&[]).followed_by(&[number])
    }

    fn state() -> KvState {
        KvState { tokens: 3, bytes: vec![7; SIZE] }
    }

    #[test]
    fn a_hit_in_memory_marks_the_file_as_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(Some(folder.path()), 1 << 20, 3 * file_bytes(SIZE), Arc::default());
        (1..=3).for_each(|number| store.put(key(number), state()));
        assert!(store.get(key(1)).is_some());
        store.put(key(4), state());
        let disk = store.disk.unwrap();
        assert_eq!([1, 2, 3, 4].map(|number| disk.contains(key(number))), [true, false, true, true]);
    }

    #[test]
    fn both_tiers_stay_within_their_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, disk, counters) = (50 * SIZE, 200 * SIZE as u64, Arc::<Counters>::default());
        let mut store = Store::open(Some(folder.path()), memory, disk, counters.clone());
        for number in 0..10_000 {
            store.put(key(number), state());
            let PrefixCacheStats { memory_bytes, disk_bytes, .. } = counters.stats();
            assert!(memory_bytes <= memory as u64 && disk_bytes <= disk, "{number}");
        }
        let reopened = DiskTier::open(folder.path().join(FOLDER), u64::MAX).unwrap();
        assert!(reopened.bytes() <= disk && reopened.bytes() > disk / 2, "{}", reopened.bytes());
    }

    #[test]
    fn files_of_an_obsolete_format_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(OBSOLETE_FOLDER).join("ab")).unwrap();
        Store::open(Some(folder.path()), 0, 1, Arc::default());
        assert!(!folder.path().join(OBSOLETE_FOLDER).exists());
    }
}
