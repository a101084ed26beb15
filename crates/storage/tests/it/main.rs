//! The stores behind the domain's ports.
#![expect(clippy::unwrap_used, reason = "a check that is shared by tests is a test")]

mod contract;
#[cfg(feature = "sqlite")]
mod conversations;
#[cfg(feature = "sqlite")]
mod damage;
#[cfg(feature = "sqlite")]
mod data_folders;
#[cfg(feature = "sqlite")]
mod faults;
#[cfg(feature = "sqlite")]
mod folder;
#[cfg(feature = "sqlite")]
mod knowledge;
mod memory;
#[cfg(feature = "sqlite")]
mod reopening;
#[cfg(feature = "sqlite")]
mod scale;
mod world;
