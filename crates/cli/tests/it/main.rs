//! The real binary, from the outside.

mod binary;
mod client;
mod config;
mod crash;
mod demos;
mod full_disk;
mod logs;
#[path = "../../../storage/tests/it/faults/mounts.rs"]
mod mounts;
mod serve;
mod stop;
