//! The `git` binary, asked without a terminal and without what a repository's own settings would run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::address::SCHEMES;

/// What would make git look elsewhere than it is told, or `ssh` ask in a window.
const MISLEADING: [&str; 7] = [
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_WORK_TREE",
    "SSH_ASKPASS",
];

/// How git calls `ssh`, unless `GIT_SSH_COMMAND` says otherwise: it asks nobody for a password.
const SSH: &str = "core.sshCommand=ssh -oBatchMode=yes";

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
            .args(["-c", SSH])
            .args(arguments)
            .env("GIT_ALLOW_PROTOCOL", SCHEMES.join(":"))
            .env("GIT_TERMINAL_PROMPT", "0")
            // Empty, it also hides the one that settings name.
            .env("GIT_ASKPASS", "")
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::{fs, thread};

    use super::*;

    /// A server that wants a password from everybody.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"it\"\r\n\
                              Content-Length: 0\r\nConnection: close\r\n\r\n";
                // Whoever asked may have left.
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        address
    }

    #[test]
    fn nobody_is_asked_for_a_password_and_nothing_that_a_repository_names_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::in_folder(folder.path());
        git.line(&["init", "--quiet"]).unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "#!/bin/sh\ntouch \"$(dirname \"$0\")/asked\"\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).unwrap();
        for setting in ["core.askPass", "core.sshCommand"] {
            git.line(&["config", setting, program.to_str().unwrap()]).unwrap();
        }
        for address in [format!("http://{}/a", server()), "ssh://127.0.0.1:1/a".to_owned()] {
            assert_eq!(git.line(&["ls-remote", &address]), None);
            assert!(!folder.path().join("asked").exists(), "{address}");
        }
    }

    #[test]
    fn what_asks_in_a_window_is_not_known_to_git() {
        let command = Git::in_folder(Path::new("/")).command(&[]);
        let value = |name: &str| command.get_envs().find(|(known, _)| *known == name).map(|(_, value)| value);
        assert_eq!(value("GIT_TERMINAL_PROMPT"), Some(Some("0".as_ref())));
        assert_eq!(value("GIT_ASKPASS"), Some(Some("".as_ref())), "an empty one hides those in settings");
        assert_eq!(value("SSH_ASKPASS"), Some(None));
    }
}
