//! A repository from elsewhere, kept as a bare clone of its latest commit. Its address, which may have credentials
//! in it, is handed to git in the environment: it is in no file and on no command line of ours.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use ring::digest::{SHA256, digest};

use super::command::Git;
use super::{address, bounded};
use crate::sources::{Limits, SourceError};

/// The commit that was fetched last.
const HEAD: &str = "refs/wellspring/head";

/// Fetches what is new, and tells the latest commit; none if the repository is empty.
pub(super) fn fetch(
    address: &str,
    cache: &Path,
    limits: Limits,
) -> Result<(Git, Option<String>), SourceError> {
    let name = address::without_credentials(address);
    let failed = |reason: &str| {
        let mask = |reason: String, secret| reason.replace(secret, "***");
        let reason = address::secrets(address).fold(reason.to_owned(), mask);
        SourceError(format!("{name} cannot be fetched: {reason}"))
    };
    let clone = Clone { folder: cache.join(folder_name(&name)), address, limits };
    fs::create_dir_all(cache).map_err(|error| failed(&error.to_string()))?;
    let _locked = clone.lock().map_err(|reason| failed(&reason))?;
    let fetched = clone.fetch().or_else(|reason| {
        // What was fetched over the years may be what is too large.
        if !clone.has_head() || bounded::bytes_in(&clone.folder) <= limits.fetch_bytes {
            return Err(reason);
        }
        clone.begin_anew()?;
        clone.fetch()
    });
    let commit = fetched.map_err(|reason| failed(&reason))?;
    Ok((clone.git(), commit))
}

/// Where a repository is kept between two readings.
struct Clone<'a> {
    folder: PathBuf,
    address: &'a str,
    limits: Limits,
}

impl Clone<'_> {
    fn git(&self) -> Git {
        Git::in_folder(&self.folder)
    }

    /// One process fetches at a time.
    fn lock(&self) -> Result<File, String> {
        let lock = File::create(self.folder.with_extension("lock")).map_err(|error| error.to_string())?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => {
                Err("another process is fetching it: wait until it is done".to_owned())
            }
            Err(TryLockError::Error(error)) => Err(error.to_string()),
        }
    }

    fn has_head(&self) -> bool {
        self.git().line(&["rev-parse", "--verify", "--quiet", HEAD]).is_some()
    }

    fn begin_anew(&self) -> Result<(), String> {
        fs::remove_dir_all(&self.folder).map_err(|error| error.to_string())
    }

    fn fetch(&self) -> Result<Option<String>, String> {
        if !self.folder.join("HEAD").is_file() {
            fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
            self.run(self.git().command(&["init", "--quiet", "--bare"]))?;
        }
        let told = self.run(self.remote(&["ls-remote", "source", "HEAD"]))?;
        let Some(commit) = told.split_ascii_whitespace().next().map(str::to_owned) else { return Ok(None) };
        if self.git().line(&["rev-parse", "--verify", "--quiet", HEAD]).as_ref() == Some(&commit) {
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
        if bounded::bytes_in(&self.folder) > self.limits.fetch_bytes {
            return Err(bounded::too_large(self.limits));
        }
        // It may have moved on since it was asked.
        Ok(self.git().line(&["rev-parse", "--verify", "--quiet", HEAD]))
    }

    fn remote(&self, arguments: &[&str]) -> Command {
        let mut command = self.git().command(arguments);
        command
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "remote.source.url")
            .env("GIT_CONFIG_VALUE_0", self.address);
        command
    }

    fn run(&self, command: Command) -> Result<String, String> {
        bounded::run(command, &self.folder, self.limits)
    }
}

fn folder_name(name: &str) -> String {
    let hash = digest(&SHA256, name.as_bytes());
    let hash: String = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{hash}.git")
}
