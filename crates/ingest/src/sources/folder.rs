//! A folder: its files, without what `.gitignore` names and without links, whose targets may lie anywhere. Or one
//! file of it.

mod walk;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::repository::Repository;
use super::repository::address;
use super::repository::command::Git;
use super::{Entry, File, Limits, Opened, Root, Skip, Source, SourceError, Unread, site};
use crate::names::Site;
use walk::Walk;

/// A folder, or one file, which is read as its folder would be that has no other. If it lies in a git repository, its documents are the repository's, by their paths in it.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// The site that its pages are shown on; without one, the site whose settings lie in it.
    pub site: Option<Site>,
    /// How much of it is read.
    pub limits: Limits,
}

impl Source for Folder {
    fn open(&self) -> Result<Box<dyn Opened>, SourceError> {
        let shown = Repository::shown(&self.path.to_string_lossy());
        let at = |error: &dyn std::fmt::Display| SourceError(format!("{shown}: {error}"));
        let path = fs::canonicalize(&self.path).map_err(|error| at(&error))?;
        let (path, only) = match path.parent().filter(|_| path.is_file()) {
            Some(folder) => (folder.to_owned(), Some(name(&path))),
            None => (path, None),
        };
        if !path.is_dir() {
            return Err(at(&"it is neither a file nor a folder"));
        }
        let (repo_url, prefix) = whereabouts(&path);
        let walk = Walk {
            root: &path,
            depth: only.as_ref().map(|_| 1),
            is_in_repository: prefix.is_some(),
            limits: self.limits,
        };
        let mut entries = walk.entries().map_err(|error| at(&error))?;
        let site = site::of(self.site.as_ref(), &entries, |file| read(&path, file, self.limits));
        if let Some(name) = &only {
            entries.retain(|entry| entry.path() == name);
        }
        let prefix = prefix.unwrap_or_default();
        let root = Root { kind: domain::SourceKind::Folder, prefix, repo_url, commit: None, site };
        Ok(Box::new(OpenedFolder { root, path, only, limits: self.limits, entries: entries.into_iter() }))
    }
}

struct OpenedFolder {
    root: Root,
    path: PathBuf,
    /// The one file that is read.
    only: Option<String>,
    limits: Limits,
    entries: std::vec::IntoIter<Entry>,
}

impl Opened for OpenedFolder {
    fn root(&self) -> &Root {
        &self.root
    }

    fn total(&self) -> Option<u64> {
        Some(self.entries.len() as u64)
    }

    fn next(&mut self) -> Option<Entry> {
        self.entries.next()
    }

    fn covers(&self, path: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == path)
    }

    fn read(&mut self, file: &File) -> Result<Vec<u8>, Unread> {
        read(&self.path, file, self.limits)
    }
}

fn read(folder: &Path, file: &File, limits: Limits) -> Result<Vec<u8>, Unread> {
    let path = folder.join(&file.path);
    // What was a file when the folder was walked may be a link now.
    match fs::canonicalize(&path) {
        Ok(real) if real == path => {}
        Ok(_) => return Err(Unread::Skipped(Skip::Link)),
        Err(error) => return Err(failed(&error)),
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(&path).map_err(|error| failed(&error))?;
    opened.take(limits.file_bytes + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > limits.file_bytes {
        return Err(Unread::Skipped(Skip::Oversized));
    }
    Ok(bytes)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn failed(error: &io::Error) -> Unread {
    Unread::Failed(format!("it cannot be read: {error}"))
}

/// The root that a folder's documents have: its git origin and the folder's path in that, else the folder itself.
fn whereabouts(path: &Path) -> (String, Option<String>) {
    let in_repository = || {
        let git = Git::in_folder(path);
        let origin = git.line(&["config", "--get", "remote.origin.url"])?;
        let prefix = git.line(&["rev-parse", "--show-prefix"])?;
        Some((address::without_credentials(&origin), Some(prefix)))
    };
    in_repository().unwrap_or_else(|| (address::of_path(path), None))
}
