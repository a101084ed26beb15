//! Reads a folder, or one file of it. Files that `.gitignore` excludes and symbolic links, which may point
//! anywhere, are skipped.

mod walk;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use domain::SourceKind;

use super::repository::Repository;
use super::repository::address;
use super::repository::git::Git;
use super::{
    FileSource, ReadError, SkipReason, SourceEntry, SourceError, SourceFile, SourceLimits, SourceRoot,
    SourceSnapshot, site_config,
};
use crate::names::DocusaurusSite;
use walk::Walk;

/// A folder, or one file, which is read as the only file of its folder. In a git repository, documents get
/// the repository's address and their paths within it.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The path of the folder or file.
    pub path: PathBuf,
    /// The site that publishes the pages; `None` to detect a Docusaurus configuration in the folder.
    pub site: Option<DocusaurusSite>,
    /// Bounds on what is read.
    pub limits: SourceLimits,
}

impl FileSource for Folder {
    fn open(&self) -> Result<Box<dyn SourceSnapshot>, SourceError> {
        let shown = Repository::redacted(&self.path.to_string_lossy());
        let path =
            fs::canonicalize(&self.path).map_err(|source| SourceError::Io { path: shown.clone(), source })?;
        let (path, only) = match path.parent().filter(|_| path.is_file()) {
            Some(folder) => (folder.to_owned(), Some(name(&path))),
            None => (path, None),
        };
        if !path.is_dir() {
            return Err(SourceError::NotAFolder { path: shown });
        }
        let (repo_url, prefix) = repository_of(&path);
        let walk = Walk {
            root: &path,
            shown: &shown,
            depth: only.as_ref().map(|_| 1),
            is_in_repository: prefix.is_some(),
            limits: self.limits,
        };
        let mut entries = walk.entries()?;
        let site =
            site_config::find_site(self.site.as_ref(), &entries, |file| read(&path, file, self.limits));
        if let Some(name) = &only {
            entries.retain(|entry| entry.path() == name);
        }
        let prefix = prefix.unwrap_or_default();
        let root = SourceRoot { kind: SourceKind::Folder, prefix, repo_url, commit: None, site };
        Ok(Box::new(FolderSnapshot { root, path, only, limits: self.limits, entries: entries.into_iter() }))
    }
}

struct FolderSnapshot {
    root: SourceRoot,
    path: PathBuf,
    /// The name of the only file to read.
    only: Option<String>,
    limits: SourceLimits,
    entries: std::vec::IntoIter<SourceEntry>,
}

impl SourceSnapshot for FolderSnapshot {
    fn root(&self) -> &SourceRoot {
        &self.root
    }

    fn total(&self) -> Option<u64> {
        Some(self.entries.len() as u64)
    }

    fn next(&mut self) -> Option<SourceEntry> {
        self.entries.next()
    }

    fn covers(&self, path: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == path)
    }

    fn read(&mut self, file: &SourceFile) -> Result<Vec<u8>, ReadError> {
        read(&self.path, file, self.limits)
    }
}

fn read(folder: &Path, file: &SourceFile, limits: SourceLimits) -> Result<Vec<u8>, ReadError> {
    let path = folder.join(&file.path);
    // The file may have become a link since the walk.
    match fs::canonicalize(&path) {
        Ok(real) if real == path => {}
        Ok(_) => return Err(ReadError::Skipped(SkipReason::Link)),
        Err(error) => return Err(failed(&error)),
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(&path).map_err(|error| failed(&error))?;
    opened.take(limits.file_bytes + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > limits.file_bytes {
        return Err(ReadError::Skipped(SkipReason::Oversized));
    }
    Ok(bytes)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn failed(error: &io::Error) -> ReadError {
    ReadError::Failed(format!("it cannot be read: {error}"))
}

/// The address and path prefix of a folder's documents: the git origin and the path within that repository,
/// or else the folder itself.
fn repository_of(path: &Path) -> (String, Option<String>) {
    let in_repository = || {
        let git = Git::in_folder(path);
        let origin = git.line(&["config", "--get", "remote.origin.url"])?;
        let prefix = git.line(&["rev-parse", "--show-prefix"])?;
        Some((address::without_credentials(&origin), Some(prefix)))
    };
    in_repository().unwrap_or_else(|| (address::file_url(path), None))
}
