//! Where sessions, prompts and their logs are kept, behind the domain's ports.

mod memory;

pub use memory::{Memory, MemoryLimits};
