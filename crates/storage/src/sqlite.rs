//! A SQLite file as this crate uses it: one way to open it, to write, to read, to bring its tables up to date
//! and to set it aside when it is damaged. What is in the tables is nobody's business here.

mod checkpoint;
mod columns;
mod damage;
mod database;
mod migrations;

use std::time::Duration;

pub(crate) use columns::{optional_uuid, uuid};
pub(crate) use damage::{Fault, set_aside};
pub(crate) use database::{Database, Lane};

/// What a visible event, or a document that was filed, survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process.
    Process,
    /// The end of the machine's power, too.
    Power,
}

/// A database of ours.
pub(crate) struct Schema {
    /// The file's name in the data folder.
    pub(crate) file: &'static str,
    /// How long a call waits for somebody else's lock on the file, its time in the queue included: however many
    /// calls wait, each is told in time.
    pub(crate) patience: Duration,
    /// How large the pages of a new file are, in bytes.
    pub(crate) page_size: u32,
    /// The tables, version by version. A migration, once released, never changes.
    pub(crate) migrations: &'static [&'static str],
}
