//! A git repository at one commit. Its files are git's own objects: nothing is checked out, so no link is followed
//! and no filter runs, and each file's content is named by its object without being read.

pub(crate) mod address;
mod bounded;
pub(crate) mod command;
mod fetch;
mod objects;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::vec;

use super::{Entry, File, Limits, Opened, Root, Source, SourceError, Unread, site};
use crate::names::Site;
use command::Git;
use objects::Objects;

/// A repository, here or elsewhere.
#[derive(Clone)]
pub struct Repository {
    /// Its URL, or a path.
    pub address: String,
    /// The folder in which repositories from elsewhere are kept between two readings.
    pub cache: PathBuf,
    /// The site that its pages are shown on; without one, the site whose settings lie in it.
    pub site: Option<Site>,
    /// How much of it is read.
    pub limits: Limits,
}

impl Repository {
    /// Whether something that a person typed names a repository rather than a folder or a page.
    pub fn is_address(typed: &str) -> bool {
        let path = Path::new(typed);
        let is_bare = path.join("HEAD").is_file() && path.join("objects").is_dir();
        is_bare || !path.exists() && address::looks_like_a_repository(typed)
    }

    /// What a person typed, fit for a terminal or a log: an address without credentials, anything else as it is.
    pub fn shown(typed: &str) -> String {
        let is_address = typed.contains("://") && !Path::new(typed).exists();
        if is_address { address::without_credentials(typed) } else { typed.to_owned() }
    }

    fn find(&self) -> Result<Found, SourceError> {
        if !self.address.starts_with('-') && Path::new(&self.address).is_dir() {
            return here(Path::new(&self.address));
        }
        address::check(&self.address)?;
        let (git, commit) = fetch::fetch(&self.address, &self.cache, self.limits)?;
        Ok(Found { repo_url: address::without_credentials(&self.address), git, commit })
    }
}

/// A repository that can be read.
struct Found {
    repo_url: String,
    git: Git,
    /// None if the repository is empty.
    commit: Option<String>,
}

impl Source for Repository {
    fn open(&self) -> Result<Box<dyn Opened>, SourceError> {
        let Found { repo_url, git, commit } = self.find()?;
        let entries = match &commit {
            Some(commit) => tree::entries(&git, commit, self.limits)?,
            None => Vec::new(),
        };
        let mut objects = Objects::of(&git, self.limits.file_bytes)?;
        let site = site::of(self.site.as_ref(), &entries, |file| objects.read_file(file));
        let root = Root { kind: domain::SourceKind::Git, repo_url, prefix: String::new(), commit, site };
        Ok(Box::new(OpenedRepository { root, entries: entries.into_iter(), objects }))
    }
}

/// A repository on this machine is read where it lies.
fn here(path: &Path) -> Result<Found, SourceError> {
    let at = |reason: &str| SourceError(format!("{}: {reason}", path.display()));
    let path = fs::canonicalize(path).map_err(|error| at(&error.to_string()))?;
    let git = Git::in_folder(&path);
    let folder = git
        .line(&["rev-parse", "--show-toplevel"])
        .or_else(|| git.line(&["rev-parse", "--absolute-git-dir"]))
        .ok_or_else(|| at("this is no git repository, or git is not installed"))?;
    let origin = git.line(&["config", "--get", "remote.origin.url"]);
    let repo_url = origin.map(|origin| address::without_credentials(&origin));
    let repo_url = repo_url.unwrap_or_else(|| address::of_path(Path::new(&folder)));
    let commit = git.line(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
    Ok(Found { repo_url, git, commit })
}

struct OpenedRepository {
    root: Root,
    entries: vec::IntoIter<Entry>,
    objects: Objects,
}

impl Opened for OpenedRepository {
    fn root(&self) -> &Root {
        &self.root
    }

    fn total(&self) -> Option<u64> {
        Some(self.entries.len() as u64)
    }

    fn next(&mut self) -> Option<Entry> {
        self.entries.next()
    }

    fn read(&mut self, file: &File) -> Result<Vec<u8>, Unread> {
        self.objects.read_file(file)
    }
}
