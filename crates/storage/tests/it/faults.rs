//! Faults of the machine while a store runs: nothing hangs, what readers were told is what is kept, and when
//! the fault goes the store goes on by itself.

mod disk;
mod locked;
mod mounts;

pub(crate) use mounts::{Disk, may_mount};
