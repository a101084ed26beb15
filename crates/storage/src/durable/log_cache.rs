//! An LRU cache of ended logs, so that many readers of one log read the disk once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{Batch, Principal, PromptId};

/// A cache with a bound in bytes. The least recently read log is evicted first.
pub(crate) struct LogCache {
    max_bytes: usize,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    entries: HashMap<PromptId, CachedLog>,
    /// The prompts in the order of their last reads.
    order: BTreeMap<u64, PromptId>,
    /// How many reads there were: the clock of `order`.
    reads: u64,
    deletions: u64,
    bytes: usize,
}

struct CachedLog {
    who: Principal,
    log: Vec<Batch>,
    bytes: usize,
    last_read: u64,
}

impl LogCache {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { max_bytes: bytes, state: Mutex::default() }
    }

    pub(crate) fn get(&self, who: &Principal, prompt: PromptId) -> Option<Vec<Batch>> {
        let mut state = self.state();
        let CacheState { entries, order, reads, .. } = &mut *state;
        let entry = entries.get_mut(&prompt).filter(|entry| entry.who == *who)?;
        *reads += 1;
        order.remove(&entry.last_read);
        order.insert(*reads, prompt);
        entry.last_read = *reads;
        Some(entry.log.clone())
    }

    /// How many logs were deleted so far. Read this before a log is read from disk, and pass it to `insert`.
    pub(crate) fn deletions(&self) -> u64 {
        self.state().deletions
    }

    /// Caches a log that was read, unless any log has been deleted meanwhile: it may be this one.
    pub(crate) fn insert(
        &self,
        who: &Principal,
        prompt: PromptId,
        log: &[Batch],
        encoded_bytes: usize,
        deletions: u64,
    ) {
        let events: usize = log.iter().map(|batch| size_of_val(&**batch)).sum();
        let bytes = events + encoded_bytes;
        let mut state = self.state();
        state.remove(prompt);
        if bytes > self.max_bytes || deletions != state.deletions {
            return;
        }
        state.reads += 1;
        let last_read = state.reads;
        state.order.insert(last_read, prompt);
        state.bytes += bytes;
        state.entries.insert(prompt, CachedLog { who: who.clone(), log: log.to_vec(), bytes, last_read });
        while state.bytes > self.max_bytes {
            let Some((_, oldest)) = state.order.first_key_value() else { return };
            let oldest = *oldest;
            state.remove(oldest);
        }
    }

    /// Drops a log that was deleted from the history.
    pub(crate) fn delete(&self, prompt: PromptId) {
        let mut state = self.state();
        state.deletions += 1;
        state.remove(prompt);
    }

    /// A poisoned lock is still good: every change of the state is complete before anything can panic.
    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
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
    fn the_least_recently_read_log_is_evicted_first() {
        let (who, [first, second, third]) = (Principal::local(), prompts());
        let cache = LogCache::new(2 * (size_of::<Event>() + 10));
        cache.insert(&who, first, &log("first"), 10, 0);
        cache.insert(&who, second, &log("second"), 10, 0);
        assert_eq!(cache.get(&who, first), Some(log("first")));
        cache.insert(&who, third, &log("third"), 10, 0);
        assert_eq!(cache.get(&who, second), None);
        assert_eq!(cache.get(&who, first), Some(log("first")));
        assert_eq!(cache.get(&who, third), Some(log("third")));
    }

    #[test]
    fn the_cache_never_holds_more_than_its_bound() {
        let (who, many) = (Principal::local(), prompts::<200>());
        let cache = LogCache::new(5_000);
        for (bytes, prompt) in (0..).step_by(37).zip(many) {
            cache.insert(&who, prompt, &log("text"), bytes, 0);
            cache.insert(&who, prompt, &log("text"), bytes, 0);
            let state = cache.state();
            assert!(state.bytes <= 5_000);
            assert_eq!(state.bytes, state.entries.values().map(|entry| entry.bytes).sum::<usize>());
            assert_eq!(state.order.len(), state.entries.len());
        }
        assert_eq!(cache.get(&who, many[199]), None, "the log is larger than the cache");
        assert!(many.iter().any(|prompt| cache.get(&who, *prompt).is_some()));
    }

    #[test]
    fn a_tenant_does_not_get_the_log_of_another() {
        let (cache, [prompt]) = (LogCache::new(5_000), prompts());
        cache.insert(&Principal::local(), prompt, &log("secret"), 10, 0);
        assert_eq!(cache.get(&Principal { tenant: "stranger".to_owned() }, prompt), None);
    }

    #[test]
    fn a_log_that_is_deleted_while_it_is_read_is_not_cached() {
        let (who, cache, [prompt]) = (Principal::local(), LogCache::new(5_000), prompts());
        let before_reading = cache.deletions();
        cache.delete(prompt);
        cache.insert(&who, prompt, &log("deleted"), 10, before_reading);
        assert_eq!(cache.get(&who, prompt), None);
        cache.insert(&who, prompt, &log("another try"), 10, cache.deletions());
        assert_eq!(cache.get(&who, prompt), Some(log("another try")));
    }
}
