//! States in memory, the ones used last, within a number of bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::key::Key;
use super::state::State;

/// States, and in which order they were used.
pub(super) struct Memory {
    most_bytes: usize,
    bytes: usize,
    uses: u64,
    states: HashMap<Key, (u64, Arc<State>)>,
    by_use: BTreeMap<u64, Key>,
}

impl Memory {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, bytes: 0, uses: 0, states: HashMap::new(), by_use: BTreeMap::new() }
    }

    pub(super) fn get(&mut self, key: Key) -> Option<Arc<State>> {
        let (used, state) = self.states.get_mut(&key)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(state.clone())
    }

    /// Takes a state in; those used longest ago make room. One that is larger than all the room is not taken.
    pub(super) fn put(&mut self, key: Key, state: Arc<State>) {
        self.remove(key);
        if size(&state) > self.most_bytes {
            return;
        }
        self.uses += 1;
        self.bytes += size(&state);
        self.by_use.insert(self.uses, key);
        self.states.insert(key, (self.uses, state));
        while self.bytes > self.most_bytes
            && let Some((_, &oldest)) = self.by_use.first_key_value()
        {
            self.remove(oldest);
        }
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.states.contains_key(&key)
    }

    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bytes as u64 + bytes <= self.most_bytes as u64
    }

    /// Whether so many bytes fit at all.
    pub(super) fn can_hold(&self, bytes: u64) -> bool {
        bytes <= self.most_bytes as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, key: Key) {
        if let Some((used, state)) = self.states.remove(&key) {
            self.by_use.remove(&used);
            self.bytes -= size(&state);
        }
    }
}

/// What a state takes, with what it is found by.
fn size(state: &State) -> usize {
    state.bytes.len() + 256
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: i32) -> Key {
        Key::of_model(&[]).followed_by(&[number])
    }

    fn state(bytes: usize) -> Arc<State> {
        Arc::new(State { tokens: 1, bytes: vec![7; bytes] })
    }

    #[test]
    fn those_used_longest_ago_make_room() {
        let mut memory = Memory::new(4 * (1_000 + 256));
        (0..4).for_each(|number| memory.put(key(number), state(1_000)));
        assert!(memory.get(key(0)).is_some());
        memory.put(key(4), state(1_000));
        let there: Vec<bool> = (0..5).map(|number| memory.get(key(number)).is_some()).collect();
        assert_eq!(there, [true, false, true, true, true]);
    }

    #[test]
    fn ten_thousand_states_stay_within_the_bytes() {
        let mut memory = Memory::new(100_000);
        for number in 0..10_000 {
            memory.put(key(number % 3_000), state(usize::try_from(number).unwrap() % 5_000));
            assert!(memory.bytes() <= 100_000);
        }
        memory.put(key(1), state(200_000));
        assert!(memory.get(key(1)).is_none());
        let counted: usize = memory.states.values().map(|(_, state)| size(state)).sum();
        assert_eq!((memory.bytes, memory.by_use.len()), (counted, memory.states.len()));
    }
}
