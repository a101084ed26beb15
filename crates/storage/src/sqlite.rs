//! One way to use a SQLite file: open, write, read, migrate, checkpoint, and set aside when damaged. Knows
//! nothing of the tables.

mod checkpoint;
mod columns;
mod damage;
mod database;
mod error;
mod migrations;

use std::time::Duration;

pub(crate) use columns::{optional_uuid, uuid};
pub(crate) use damage::set_aside;
pub(crate) use database::{Database, QueuedConnection};
pub(crate) use error::storage_error;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process.
    Process,
    /// A power failure, too: writes wait for `fdatasync`.
    Power,
}

/// The file and the tables of a database.
pub(crate) struct Schema {
    /// The file's name in the data folder.
    pub(crate) file: &'static str,
    /// How long a call may wait in the queue and for another process's lock, together. A call that waited longer
    /// fails, however many calls are queued.
    pub(crate) busy_timeout: Duration,
    /// Page size of a new file, in bytes.
    pub(crate) page_size: u32,
    /// The tables, version by version. A released migration never changes.
    pub(crate) migrations: &'static [&'static str],
}
