//! A test's own data folder.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use storage::{Durability, DurableStore, DurableStoreSettings, JournalLimits};
use tempfile::TempDir;

use crate::harness::at;

/// A folder that is deleted with this value.
pub(crate) struct DataFolder {
    pub(crate) settings: DurableStoreSettings,
    /// None if the test does not own the folder.
    _temporary: Option<TempDir>,
}

impl DataFolder {
    /// An empty temporary folder.
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a temporary folder can be created");
        let mut folder = Self::at(temporary.path());
        folder._temporary = Some(temporary);
        folder
    }

    /// An existing folder, which is not deleted.
    pub(crate) fn at(path: &Path) -> Self {
        let settings = DurableStoreSettings {
            folder: path.to_owned(),
            durability: Durability::Process,
            journal: JournalLimits { segment_bytes: 64 * 1024, journal_bytes: 1024 * 1024 },
            cache_bytes: 1024 * 1024,
        };
        Self { settings, _temporary: None }
    }

    /// Opens the store in it, this many seconds after the tests began.
    pub(crate) fn open(&self, seconds: u64) -> DurableStore {
        DurableStore::open(&self.settings, at(seconds)).expect("the folder opens")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.settings.folder.join("history.db")
    }

    /// A connection of another process to the database.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.database()).expect("the database exists")
    }

    /// The names of all files below it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in [self.settings.folder.clone(), self.settings.folder.join("journal")] {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.expect("the folder can be listed").path();
                if path.is_file() {
                    let name =
                        path.strip_prefix(&self.settings.folder).expect("the path is below the folder");
                    names.push(name.to_str().expect("plain names").to_owned());
                }
            }
        }
        names.sort();
        names
    }

    /// The journal's segments, in order.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let names = self.names().into_iter().filter(|name| name.ends_with(".log"));
        names.map(|name| self.settings.folder.join(name)).collect()
    }

    /// A copy of the folder, as a process that is killed now would leave it.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        fs::create_dir_all(copy.settings.folder.join("journal")).expect("a folder can be created");
        for name in self.names() {
            fs::copy(self.settings.folder.join(&name), copy.settings.folder.join(&name))
                .expect("the file can be copied");
        }
        copy
    }
}
