//! The `git` binary, asked without a terminal and without what a repository's own settings would run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::address::SCHEMES;

/// What would make git look elsewhere than it is told.
const MISLEADING: [&str; 6] =
    ["GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"];

/// Git in a folder.
pub(crate) struct Git {
    folder: PathBuf,
}

impl Git {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// A command that asks nobody anything and runs no program that a repository names.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(&self.folder)
            .args(["-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
            .args(arguments)
            .env("GIT_ALLOW_PROTOCOL", SCHEMES.join(":"))
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        for name in MISLEADING {
            command.env_remove(name);
        }
        command
    }

    /// The one line that a command answers with; none if it fails.
    pub(crate) fn line(&self, arguments: &[&str]) -> Option<String> {
        let output = self.command(arguments).output().ok().filter(|output| output.status.success())?;
        let line = String::from_utf8(output.stdout).ok()?;
        Some(line.strip_suffix('\n').unwrap_or(&line).to_owned())
    }
}
