//! Fetches a remote repository into a bare clone of its latest commit.
//!
//! The address may contain credentials, so git gets it in the environment: it is in no file and on no command line.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use ring::digest::{SHA256, digest};

use super::git::Git;
use super::{address, watchdog};
use crate::sources::{GitError, SourceError, SourceLimits};

/// The ref of the fetched commit.
const HEAD: &str = "refs/wellspring/head";

/// Fetches the latest commit; `None` if the repository is empty.
pub(super) fn fetch(
    address: &str,
    cache: &Path,
    limits: SourceLimits,
) -> Result<(Git, Option<String>), SourceError> {
    let name = address::without_credentials(address);
    let clone = CachedClone { folder: cache.join(folder_name(&name)), address, limits };
    match clone.lock_and_fetch(cache) {
        Ok(commit) => Ok((clone.git(), commit)),
        Err(error) => Err(SourceError::Fetch { address: name, source: masked(error, address) }),
    }
}

/// Git may repeat the address in its errors.
fn masked(error: GitError, address: &str) -> GitError {
    match error {
        GitError::Failed(message) => GitError::Failed(
            address::secrets(address).fold(message, |message, secret| message.replace(secret, "***")),
        ),
        other => other,
    }
}

/// The clone of a remote repository that the cache folder holds between two ingests.
struct CachedClone<'a> {
    folder: PathBuf,
    address: &'a str,
    limits: SourceLimits,
}

impl CachedClone<'_> {
    fn git(&self) -> Git {
        Git::in_folder(&self.folder)
    }

    fn lock_and_fetch(&self, cache: &Path) -> Result<Option<String>, GitError> {
        fs::create_dir_all(cache)?;
        let _lock = self.lock()?;
        self.fetch().or_else(|error| {
            // The clone may be too large only because it has accumulated old commits.
            if !self.has_head() || watchdog::bytes_in(&self.folder) <= self.limits.fetch_bytes {
                return Err(error);
            }
            fs::remove_dir_all(&self.folder)?;
            self.fetch()
        })
    }

    /// Keeps other processes from fetching the same repository.
    fn lock(&self) -> Result<File, GitError> {
        let lock = File::create(self.folder.with_extension("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(GitError::Locked),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    fn has_head(&self) -> bool {
        self.head().is_some()
    }

    fn head(&self) -> Option<String> {
        self.git().line(&["rev-parse", "--verify", "--quiet", HEAD])
    }

    fn fetch(&self) -> Result<Option<String>, GitError> {
        if !self.folder.join("HEAD").is_file() {
            fs::create_dir_all(&self.folder)?;
            self.run(self.git().command(&["init", "--quiet", "--bare"]))?;
        }
        let listing = self.run(self.remote(&["ls-remote", "source", "HEAD"]))?;
        let Some(commit) = listing.split_ascii_whitespace().next().map(str::to_owned) else {
            return Ok(None);
        };
        if self.head().as_ref() == Some(&commit) {
            return Ok(Some(commit));
        }
        let refspec = format!("+HEAD:{HEAD}");
        self.run(self.remote(&[
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "source",
            &refspec,
        ]))?;
        if watchdog::bytes_in(&self.folder) > self.limits.fetch_bytes {
            return Err(watchdog::too_large(self.limits));
        }
        // The remote may have a newer commit than `ls-remote` listed.
        Ok(self.head())
    }

    fn remote(&self, arguments: &[&str]) -> Command {
        let mut command = self.git().command(arguments);
        command
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "remote.source.url")
            .env("GIT_CONFIG_VALUE_0", self.address);
        command
    }

    fn run(&self, command: Command) -> Result<String, GitError> {
        watchdog::run(command, &self.folder, self.limits)
    }
}

fn folder_name(name: &str) -> String {
    let hash = digest(&SHA256, name.as_bytes());
    let hash: String = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{hash}.git")
}
