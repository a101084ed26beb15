//! Why a source or one of its files cannot be read. No message contains credentials.

use std::io;

use super::SkipReason;
use super::repository::SCHEMES;

/// Why a source cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file system refuses access.
    #[error("{path}: {source}")]
    Io {
        /// The path, as it may be shown.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The path is a socket, a pipe or another special file.
    #[error("{path}: it is neither a file nor a folder")]
    NotAFolder {
        /// The path, as it may be shown.
        path: String,
    },
    /// The folder is not part of a git repository.
    #[error("{path}: this is no git repository, or git is not installed")]
    NotARepository {
        /// The path.
        path: String,
    },
    /// The folder has more files than [`super::SourceLimits::files`].
    #[error("{path}: it has more than {limit} files: read a part of it")]
    TooManyFiles {
        /// The path, as it may be shown.
        path: String,
        /// The bound.
        limit: usize,
    },
    /// The address of a repository is not accepted.
    #[error("this is no repository that can be read: {0}")]
    Address(#[from] InvalidAddress),
    /// A remote repository cannot be fetched.
    #[error("{address} cannot be fetched: {source}")]
    Fetch {
        /// The address without credentials.
        address: String,
        /// The cause.
        source: GitError,
    },
    /// The files of a commit cannot be listed.
    #[error("the files of commit {commit} cannot be listed: {source}")]
    List {
        /// The commit.
        commit: String,
        /// The cause.
        source: GitError,
    },
    /// The git process that reads files cannot be started.
    #[error("git cannot be started: {0}")]
    GitNotStarted(#[source] io::Error),
}

/// Why the address of a repository is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// It is empty, could be an option of git, or has several lines.
    #[error("its address is empty, begins with `-` or has a line end in it")]
    Malformed,
    /// It has a scheme but is no URL.
    #[error("its address has `://` in it but is no URL: look at its host and port")]
    NotAUrl,
    /// Its scheme could run a program.
    #[error("{0} is none of {schemes}", schemes = SCHEMES.join(", "))]
    Scheme(String),
    /// Its user or host could be an option of `ssh`.
    #[error("its host begins with `-`")]
    HostIsOption,
    /// It names a remote helper.
    #[error("`::` names a program to run")]
    RemoteHelper,
    /// It has none of the known forms.
    #[error("it is neither a URL, nor host:path, nor a path that exists")]
    Unknown,
}

/// Why a git command failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The command or its files failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Git reports an error: the last `fatal:` line of its output.
    #[error("{0}")]
    Failed(String),
    /// Another process fetches the same repository.
    #[error("another process is fetching it: wait until it is done")]
    Locked,
    /// The command exceeded [`super::SourceLimits::fetch_time`].
    #[error("it took longer than {seconds} seconds")]
    TimedOut {
        /// The bound.
        seconds: u64,
    },
    /// The repository exceeds [`super::SourceLimits::fetch_bytes`].
    #[error("it takes more than {mebibytes} MiB on disk")]
    TooLarge {
        /// The bound.
        mebibytes: u64,
    },
    /// The commit has more files than [`super::SourceLimits::files`].
    #[error("there are more than {limit}")]
    TooManyFiles {
        /// The bound.
        limit: usize,
    },
    /// A path of the commit exceeds 64 KiB.
    #[error("a path is too long")]
    PathTooLong,
    /// The repository's objects cannot be read.
    #[error("git says that the repository is damaged")]
    Damaged,
}

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is not to be ingested.
    #[error("it is skipped: {}", .0.name())]
    Skipped(SkipReason),
    /// Reading failed; the message says what is wrong and what to do.
    #[error("{0}")]
    Failed(String),
}
