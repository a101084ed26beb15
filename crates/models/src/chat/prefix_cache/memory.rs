//! The in-memory tier: KV states within a number of bytes, least recently used first out.

use std::collections::VecDeque;
use std::sync::Arc;

use super::key::CacheKey;
use super::kv_state::KvState;

/// KV states in memory. They are megabytes each and therefore few, so that a scan finds them fast enough.
pub(super) struct MemoryTier {
    max_bytes: usize,
    bytes: usize,
    /// The least recently used comes first.
    states: VecDeque<(CacheKey, Arc<KvState>)>,
}

impl MemoryTier {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, states: VecDeque::new() }
    }

    /// A state, which becomes the most recently used.
    pub(super) fn get(&mut self, key: CacheKey) -> Option<Arc<KvState>> {
        let state = self.remove(key)?;
        self.put(key, state.clone());
        Some(state)
    }

    /// Adds a state and evicts others for it. A state larger than the bound is not added.
    pub(super) fn put(&mut self, key: CacheKey, state: Arc<KvState>) {
        self.remove(key);
        if size(&state) > self.max_bytes {
            return;
        }
        self.bytes += size(&state);
        self.states.push_back((key, state));
        while self.bytes > self.max_bytes
            && let Some((_, evicted)) = self.states.pop_front()
        {
            self.bytes -= size(&evicted);
        }
    }

    pub(super) fn contains(&self, key: CacheKey) -> bool {
        self.states.iter().any(|(other, _)| *other == key)
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn remove(&mut self, key: CacheKey) -> Option<Arc<KvState>> {
        let index = self.states.iter().position(|(other, _)| *other == key)?;
        let (_, state) = self.states.remove(index)?;
        self.bytes -= size(&state);
        Some(state)
    }
}

/// Bytes of a state and its entry.
fn size(state: &KvState) -> usize {
    state.bytes.len() + size_of::<(CacheKey, KvState)>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: i32) -> CacheKey {
        CacheKey::of_model(&[]).followed_by(&[number])
    }

    fn state(bytes: usize) -> Arc<KvState> {
        Arc::new(KvState { tokens: 1, bytes: vec![7; bytes] })
    }

    #[test]
    fn the_least_recently_used_states_are_evicted() {
        let mut memory = MemoryTier::new(4 * size(&state(1_000)));
        (0..4).for_each(|number| memory.put(key(number), state(1_000)));
        assert!(memory.get(key(0)).is_some());
        memory.put(key(4), state(1_000));
        let cached: Vec<bool> = (0..5).map(|number| memory.contains(key(number))).collect();
        assert_eq!(cached, [true, false, true, true, true]);
    }

    #[test]
    fn ten_thousand_states_stay_within_the_bound() {
        let mut memory = MemoryTier::new(100_000);
        for number in 0..10_000 {
            memory.put(key(number % 3_000), state(usize::try_from(number).unwrap() % 5_000));
            assert!(memory.bytes() <= 100_000);
        }
        memory.put(key(1), state(200_000));
        assert!(!memory.contains(key(1)));
        let counted: usize = memory.states.iter().map(|(_, state)| size(state)).sum();
        assert_eq!(memory.bytes, counted);
    }
}
