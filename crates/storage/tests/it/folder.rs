//! A data folder of a test's own.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use storage::{Durability, Durable, DurableSettings, JournalLimits};
use tempfile::TempDir;

use crate::world::at;

/// A folder that is deleted with this value.
pub(crate) struct Folder {
    pub(crate) settings: DurableSettings,
    /// None if somebody else deletes it.
    _temporary: Option<TempDir>,
}

impl Folder {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a temporary folder can be made");
        let mut folder = Self::at(temporary.path());
        folder._temporary = Some(temporary);
        folder
    }

    /// One that is there, and stays.
    pub(crate) fn at(path: &Path) -> Self {
        let settings = DurableSettings {
            folder: path.to_owned(),
            durability: Durability::Process,
            journal: JournalLimits { segment_bytes: 64 * 1024, journal_bytes: 1024 * 1024 },
            cache_bytes: 1024 * 1024,
        };
        Self { settings, _temporary: None }
    }

    /// Opens the store in it, so many seconds after the tests began.
    pub(crate) fn open(&self, seconds: u64) -> Durable {
        Durable::open(&self.settings, at(seconds)).expect("a sound folder opens")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.settings.folder.join("history.db")
    }

    /// A connection of somebody else's to the database.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.database()).expect("the database is there")
    }

    /// The names of all files below it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in [self.settings.folder.clone(), self.settings.folder.join("journal")] {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.expect("it can be listed").path();
                if path.is_file() {
                    let name = path.strip_prefix(&self.settings.folder).expect("it is in there");
                    names.push(name.to_str().expect("plain names").to_owned());
                }
            }
        }
        names.sort();
        names
    }

    /// The journal's segments, in their order.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let names = self.names().into_iter().filter(|name| name.ends_with(".log"));
        names.map(|name| self.settings.folder.join(name)).collect()
    }

    /// The same folder as a killed process would leave it now.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        fs::create_dir_all(copy.settings.folder.join("journal")).expect("a folder can be made");
        for name in self.names() {
            fs::copy(self.settings.folder.join(&name), copy.settings.folder.join(&name)).expect("a copy");
        }
        copy
    }
}
