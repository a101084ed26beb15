//! Chance that can be repeated, and how often it is tried.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice {
    seed: u64,
    throws: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, throws: 0 }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.throws += 1;
        let mut hasher = DefaultHasher::new();
        (self.seed, self.throws).hash(&mut hasher);
        usize::try_from(hasher.finish() % bound as u64).expect("it is below a usize")
    }
}

/// A failure can be repeated with its seed.
impl Drop for Dice {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {}", self.seed);
        }
    }
}

/// The long version of a number, for `WELLSPRING_SOAK`.
pub(crate) fn soak(usual: usize, long: usize) -> usize {
    if std::env::var_os("WELLSPRING_SOAK").is_some() { long } else { usual }
}
