//! Where sessions, prompts and their logs are kept, behind the domain's ports.

#[cfg(feature = "sqlite")]
mod durable;
mod memory;

#[cfg(feature = "sqlite")]
pub use durable::{Durability, Durable, DurableSettings, JournalLimits};
pub use memory::{Memory, MemoryLimits};
