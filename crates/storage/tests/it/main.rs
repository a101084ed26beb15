//! Integration tests of the stores, through the domain's ports.
#![expect(clippy::unwrap_used, reason = "a check that is shared by tests is a test")]

#[cfg(feature = "sqlite")]
mod catalog;
mod contract;
#[cfg(feature = "sqlite")]
mod conversations_table;
#[cfg(feature = "sqlite")]
mod damage;
#[cfg(feature = "sqlite")]
mod data_folder;
#[cfg(feature = "sqlite")]
mod faults;
mod harness;
mod memory_limits;
#[cfg(feature = "sqlite")]
mod released_formats;
#[cfg(feature = "sqlite")]
mod restart;
#[cfg(feature = "sqlite")]
mod scale;
