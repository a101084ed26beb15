//! Reads a git repository at one commit.
//!
//! Files are read as git objects, without a checkout: no link is followed, no filter or hook runs, and the
//! object id identifies the content of a file without reading it.

pub(crate) mod address;
mod blobs;
mod fetch;
pub(crate) mod git;
mod tree;
mod watchdog;

use std::fs;
use std::path::{Path, PathBuf};
use std::vec;

use domain::SourceKind;

use super::{
    FileSource, ReadError, SourceEntry, SourceError, SourceFile, SourceLimits, SourceRoot, SourceSnapshot,
    site_config,
};
use crate::names::DocusaurusSite;
pub(crate) use address::SCHEMES;
use blobs::BlobReader;
use git::Git;

/// A local or remote repository.
#[derive(Clone)]
pub struct Repository {
    /// A URL or a local path.
    pub address: String,
    /// The folder for clones of remote repositories, which later ingests update.
    pub cache: PathBuf,
    /// The site that publishes the pages; `None` to detect a Docusaurus configuration in the repository.
    pub site: Option<DocusaurusSite>,
    /// Bounds on what is read.
    pub limits: SourceLimits,
}

impl Repository {
    /// Whether a command-line argument names a repository rather than a folder or a page.
    pub fn is_address(typed: &str) -> bool {
        let path = Path::new(typed);
        let is_bare = path.join("HEAD").is_file() && path.join("objects").is_dir();
        is_bare || !path.exists() && address::looks_like_a_repository(typed)
    }

    /// A command-line argument as it may be shown: an address without credentials, anything else unchanged.
    pub fn redacted(typed: &str) -> String {
        let is_address = typed.contains("://") && !Path::new(typed).exists();
        if is_address { address::without_credentials(typed) } else { typed.to_owned() }
    }

    fn locate(&self) -> Result<LocalRepository, SourceError> {
        if !self.address.starts_with('-') && Path::new(&self.address).is_dir() {
            return LocalRepository::at(Path::new(&self.address));
        }
        address::check(&self.address)?;
        let (git, commit) = fetch::fetch(&self.address, &self.cache, self.limits)?;
        Ok(LocalRepository { repo_url: address::without_credentials(&self.address), git, commit })
    }
}

/// A repository on disk.
struct LocalRepository {
    repo_url: String,
    git: Git,
    /// `None` if the repository has no commits.
    commit: Option<String>,
}

impl LocalRepository {
    fn at(path: &Path) -> Result<Self, SourceError> {
        let shown = || path.display().to_string();
        let path = fs::canonicalize(path).map_err(|source| SourceError::Io { path: shown(), source })?;
        let git = Git::in_folder(&path);
        let folder = git
            .line(&["rev-parse", "--show-toplevel"])
            .or_else(|| git.line(&["rev-parse", "--absolute-git-dir"]))
            .ok_or_else(|| SourceError::NotARepository { path: shown() })?;
        let origin = git.line(&["config", "--get", "remote.origin.url"]);
        let repo_url = origin.map(|origin| address::without_credentials(&origin));
        let repo_url = repo_url.unwrap_or_else(|| address::file_url(Path::new(&folder)));
        let commit = git.line(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        Ok(Self { repo_url, git, commit })
    }
}

impl FileSource for Repository {
    fn open(&self) -> Result<Box<dyn SourceSnapshot>, SourceError> {
        let LocalRepository { repo_url, git, commit } = self.locate()?;
        let entries = match &commit {
            Some(commit) => tree::entries(&git, commit, self.limits)?,
            None => Vec::new(),
        };
        let mut blobs = BlobReader::start(&git, self.limits.file_bytes)?;
        let site = site_config::find_site(self.site.as_ref(), &entries, |file| blobs.read_file(file));
        let root = SourceRoot { kind: SourceKind::Git, repo_url, prefix: String::new(), commit, site };
        Ok(Box::new(RepositorySnapshot { root, entries: entries.into_iter(), blobs }))
    }
}

struct RepositorySnapshot {
    root: SourceRoot,
    entries: vec::IntoIter<SourceEntry>,
    blobs: BlobReader,
}

impl SourceSnapshot for RepositorySnapshot {
    fn root(&self) -> &SourceRoot {
        &self.root
    }

    fn total(&self) -> Option<u64> {
        Some(self.entries.len() as u64)
    }

    fn next(&mut self) -> Option<SourceEntry> {
        self.entries.next()
    }

    fn read(&mut self, file: &SourceFile) -> Result<Vec<u8>, ReadError> {
        self.blobs.read_file(file)
    }
}
