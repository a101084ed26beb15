//! The stores that implement the domain's ports: sessions, prompts and their logs, and the catalog of documents.
//!
//! | store | ports | where |
//! | --- | --- | --- |
//! | [`DurableStore`] | `Sessions`, `Journal`, `History` | a data folder: `journal/*.log` and `history.db` |
//! | [`SqliteCatalog`] | `Catalog` | `knowledge.db` in the same folder, or memory |
//! | [`MemoryStore`] | `Sessions`, `Journal`, `History` | the process, with bounds on bytes and sessions |
//!
//! The parts, along the life of a prompt and of a document:
//! - `durable/journal`: the write-ahead journal of running logs. Segment files of checksummed frames, group
//!   `fdatasync`, copying forward, recovery.
//! - `durable/history`: the tables of `history.db`. Sessions, claims, the end of a prompt, retention.
//! - `durable/log_codec`: the stored form of a log's events, shared by both.
//! - `durable/recovery`: ends the prompts of a process that died.
//! - `catalog`: documents, chunks, vectors and the change feed that an index follows.
//! - `sqlite`: how this crate opens, queues for, migrates, checkpoints and sets aside a SQLite file.
//! - [`back_up`]: copies of the databases while they are in use.
//!
//! Invariants:
//! - One process at a time has the journal and `history.db`, by the folder's lock. `knowledge.db` may have several.
//! - A batch is in the journal before a reader sees it. It survives the process; with [`Durability::Power`] also
//!   a power failure.
//! - A prompt's end is one transaction: status, log, turn and session change together or not at all.
//! - Tokens never share a file with anything slow.
//! - Damage costs the records it hit. A damaged file is renamed, never deleted.
//! - Stored forms and tables only grow: every released format opens.

#[cfg(feature = "sqlite")]
mod backup;
#[cfg(feature = "sqlite")]
mod catalog;
#[cfg(feature = "sqlite")]
mod data_folder;
#[cfg(feature = "sqlite")]
mod durable;
#[cfg(feature = "sqlite")]
mod io_error;
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "sqlite")]
pub use backup::{DatabaseCopy, back_up};
#[cfg(feature = "sqlite")]
pub use catalog::SqliteCatalog;
#[cfg(feature = "sqlite")]
pub use durable::{DurableStore, DurableStoreSettings, JournalLimits};
pub use memory::{MemoryLimits, MemoryStore};
#[cfg(feature = "sqlite")]
pub use sqlite::Durability;
