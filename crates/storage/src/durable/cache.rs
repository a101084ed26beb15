//! Ended logs that were read lately, so that many readers of one log read the disk once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    removals: u64,
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
        let mut state = self.state();
        let State { entries, order, reads, .. } = &mut *state;
        let entry = entries.get_mut(&prompt).filter(|entry| entry.who == *who)?;
        *reads += 1;
        order.remove(&entry.last_read);
        order.insert(*reads, prompt);
        entry.last_read = *reads;
        Some(entry.log.clone())
    }

    /// How many logs were removed so far; to be asked before a log is read that is then put here.
    pub(crate) fn removals(&self) -> u64 {
        self.state().removals
    }

    /// Keeps a log that was read, unless some log has been deleted meanwhile: it may be this one.
    pub(crate) fn put(
        &self,
        who: &Principal,
        prompt: PromptId,
        log: &[Batch],
        encoded_bytes: usize,
        removals: u64,
    ) {
        let events: usize = log.iter().map(|batch| size_of_val(&**batch)).sum();
        let bytes = events + encoded_bytes;
        let mut state = self.state();
        state.remove(prompt);
        if bytes > self.bytes || removals != state.removals {
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
        let mut state = self.state();
        state.removals += 1;
        state.remove(prompt);
    }

    /// Every change of the state is whole before anything can panic, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use domain::{Event, Step, Timestamp};

    use super::*;

    fn log(text: &str) -> Vec<Batch> {
        vec![[Event { position: 1, at: Timestamp::from_micros(1), step: Step::Text(text.into()) }].into()]
    }

    fn prompts<const N: usize>() -> [PromptId; N] {
        std::array::from_fn(|_| PromptId::new(Timestamp::from_micros(1)))
    }

    #[test]
    fn the_log_that_was_not_read_for_the_longest_time_is_forgotten_first() {
        let (who, [first, second, third]) = (Principal::local(), prompts());
        let cache = Cache::new(2 * (size_of::<Event>() + 10));
        cache.put(&who, first, &log("first"), 10, 0);
        cache.put(&who, second, &log("second"), 10, 0);
        assert_eq!(cache.get(&who, first), Some(log("first")));
        cache.put(&who, third, &log("third"), 10, 0);
        assert_eq!(cache.get(&who, second), None);
        assert_eq!(cache.get(&who, first), Some(log("first")));
        assert_eq!(cache.get(&who, third), Some(log("third")));
    }

    #[test]
    fn it_never_holds_more_than_its_bound() {
        let (who, many) = (Principal::local(), prompts::<200>());
        let cache = Cache::new(5_000);
        for (bytes, prompt) in (0..).step_by(37).zip(many) {
            cache.put(&who, prompt, &log("text"), bytes, 0);
            cache.put(&who, prompt, &log("text"), bytes, 0);
            let state = cache.state();
            assert!(state.bytes <= 5_000);
            assert_eq!(state.bytes, state.entries.values().map(|entry| entry.bytes).sum::<usize>());
            assert_eq!(state.order.len(), state.entries.len());
        }
        assert_eq!(cache.get(&who, many[199]), None, "it is larger than the cache");
        assert!(many.iter().any(|prompt| cache.get(&who, *prompt).is_some()));
    }

    #[test]
    fn nobody_gets_the_log_of_another_tenant() {
        let (cache, [prompt]) = (Cache::new(5_000), prompts());
        cache.put(&Principal::local(), prompt, &log("secret"), 10, 0);
        assert_eq!(cache.get(&Principal { tenant: "stranger".to_owned() }, prompt), None);
    }

    #[test]
    fn a_log_that_is_deleted_while_it_is_read_is_not_kept() {
        let (who, cache, [prompt]) = (Principal::local(), Cache::new(5_000), prompts());
        let before_reading = cache.removals();
        cache.remove(prompt);
        cache.put(&who, prompt, &log("deleted"), 10, before_reading);
        assert_eq!(cache.get(&who, prompt), None);
        cache.put(&who, prompt, &log("another try"), 10, cache.removals());
        assert_eq!(cache.get(&who, prompt), Some(log("another try")));
    }
}
