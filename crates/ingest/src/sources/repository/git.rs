//! Builds git commands that never prompt and never run a program that a repository's configuration names.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::address::SCHEMES;

/// Variables that redirect git to another repository, or let `ssh` open a window.
const REMOVED_VARIABLES: [&str; 7] = [
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_WORK_TREE",
    "SSH_ASKPASS",
];

/// Makes `ssh` fail instead of prompting for a password. `GIT_SSH_COMMAND` takes precedence.
const SSH: &str = "core.sshCommand=ssh -oBatchMode=yes";

/// Runs git in a folder.
pub(crate) struct Git {
    folder: PathBuf,
}

impl Git {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// A command without terminal, prompts, hooks and file system monitors.
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
            // An empty value also overrides `core.askPass`.
            .env("GIT_ASKPASS", "")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        for name in REMOVED_VARIABLES {
            command.env_remove(name);
        }
        command
    }

    /// The single line of a command's output; `None` if the command fails.
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

    /// A server that requires a password.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let response = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"it\"\r\n\
                              Content-Length: 0\r\nConnection: close\r\n\r\n";
                // The client may have disconnected.
                let _ = (&stream).write_all(response.as_bytes());
            }
        });
        address
    }

    #[test]
    fn git_neither_asks_for_a_password_nor_runs_a_program_of_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::in_folder(folder.path());
        git.line(&["init", "--quiet"]).unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).unwrap();
        for setting in ["core.askPass", "core.sshCommand"] {
            git.line(&["config", setting, program.to_str().unwrap()]).unwrap();
        }
        for address in [format!("http://{}/a", server()), "ssh://127.0.0.1:1/a".to_owned()] {
            assert_eq!(git.line(&["ls-remote", &address]), None);
            assert!(!folder.path().join("ran").exists(), "{address}");
        }
    }

    #[test]
    fn git_has_no_program_to_ask_for_passwords() {
        let command = Git::in_folder(Path::new("/")).command(&[]);
        let value =
            |name: &str| command.get_envs().find(|(variable, _)| *variable == name).map(|(_, value)| value);
        assert_eq!(value("GIT_TERMINAL_PROMPT"), Some(Some("0".as_ref())));
        assert_eq!(
            value("GIT_ASKPASS"),
            Some(Some("".as_ref())),
            "an empty value overrides git's configuration"
        );
        assert_eq!(value("SSH_ASKPASS"), Some(None));
    }
}
