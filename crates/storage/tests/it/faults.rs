//! Faults while a store runs: no call hangs, the stored log is the one that readers saw, and the store recovers by
//! itself once the fault is gone.

mod disk;
mod locked;
mod mounts;

pub(crate) use mounts::{Disk, may_mount};
