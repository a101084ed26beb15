//! Where sessions, prompts, their logs and documents are kept, behind the domain's ports.

#[cfg(feature = "sqlite")]
mod backup;
#[cfg(feature = "sqlite")]
mod durable;
#[cfg(feature = "sqlite")]
mod folder;
#[cfg(feature = "sqlite")]
mod knowledge;
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "sqlite")]
pub use backup::{BackedUp, back_up};
#[cfg(feature = "sqlite")]
pub use durable::{Durable, DurableSettings, JournalLimits};
#[cfg(feature = "sqlite")]
pub use knowledge::Knowledge;
pub use memory::{Memory, MemoryLimits};
#[cfg(feature = "sqlite")]
pub use sqlite::Durability;
