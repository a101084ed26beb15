//! Repeatable random numbers, and how many cases a randomized test runs.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A sequence of numbers that looks random and is the same in every run.
pub(crate) struct SeededRandom {
    seed: u64,
    draws: u64,
}

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, draws: 0 }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.draws += 1;
        let mut hasher = DefaultHasher::new();
        (self.seed, self.draws).hash(&mut hasher);
        usize::try_from(hasher.finish() % bound as u64).expect("it is below a usize")
    }
}

/// Prints the seed of a failed test.
impl Drop for SeededRandom {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {}", self.seed);
        }
    }
}

/// The number of cases: more of them with `WELLSPRING_SOAK`.
pub(crate) fn soak(usual: usize, long: usize) -> usize {
    if std::env::var_os("WELLSPRING_SOAK").is_some() { long } else { usual }
}
