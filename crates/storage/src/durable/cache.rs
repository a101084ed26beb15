//! Ended logs that were read lately, so that many readers of one log read the disk once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use domain::{Batch, Principal, PromptId};

/// A bounded cache; the log that was not read for the longest time is forgotten first.
pub(crate) struct Cache {
    bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<PromptId, Entry>,
    /// The prompts by when they were last read.
    order: BTreeMap<u64, PromptId>,
    reads: u64,
    bytes: usize,
}

struct Entry {
    who: Principal,
    log: Vec<Batch>,
    bytes: usize,
    last_read: u64,
}

impl Cache {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, state: Mutex::default() }
    }

    pub(crate) fn get(&self, who: &Principal, prompt: PromptId) -> Option<Vec<Batch>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { entries, order, reads, .. } = &mut *state;
        let entry = entries.get_mut(&prompt).filter(|entry| entry.who == *who)?;
        *reads += 1;
        order.remove(&entry.last_read);
        order.insert(*reads, prompt);
        entry.last_read = *reads;
        Some(entry.log.clone())
    }

    pub(crate) fn put(&self, who: &Principal, prompt: PromptId, log: &[Batch], encoded_bytes: usize) {
        let events: usize = log.iter().map(|batch| size_of_val(&**batch)).sum();
        let bytes = events + encoded_bytes;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.remove(prompt);
        if bytes > self.bytes {
            return;
        }
        state.reads += 1;
        let last_read = state.reads;
        state.order.insert(last_read, prompt);
        state.bytes += bytes;
        state.entries.insert(prompt, Entry { who: who.clone(), log: log.to_vec(), bytes, last_read });
        while state.bytes > self.bytes {
            let Some((_, oldest)) = state.order.first_key_value() else { return };
            let oldest = *oldest;
            state.remove(oldest);
        }
    }

    /// Forgets a log, because it was deleted.
    pub(crate) fn remove(&self, prompt: PromptId) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).remove(prompt);
    }
}

impl State {
    fn remove(&mut self, prompt: PromptId) {
        if let Some(entry) = self.entries.remove(&prompt) {
            self.order.remove(&entry.last_read);
            self.bytes -= entry.bytes;
        }
    }
}
