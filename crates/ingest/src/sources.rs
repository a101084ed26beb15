//! Sources of documents: folders and git repositories.
//!
//! A source lists the files that exist now. The pipeline compares the list with the catalog to find new, changed
//! and removed files, so a source keeps no state of its own.

mod error;
mod folder;
mod repository;
mod site_config;
pub(crate) mod skip_rules;

use std::time::Duration;

use domain::SourceKind;

use crate::names::DocusaurusSite;
pub use error::{GitError, InvalidAddress, ReadError, SourceError};
pub use folder::Folder;
pub use repository::Repository;

/// A tree of files to ingest. Its methods block, so the pipeline calls them on a blocking thread.
pub trait FileSource: Send + Sync {
    /// Lists the files. This may take minutes, if a repository has to be fetched.
    fn open(&self) -> Result<Box<dyn SourceSnapshot>, SourceError>;
}

/// The files of a source at one moment.
pub trait SourceSnapshot: Send {
    /// The properties that all files have in common.
    fn root(&self) -> &SourceRoot;

    /// The number of entries, if it is known in advance.
    fn total(&self) -> Option<u64>;

    /// The next entry. No entry refers to anything outside the source.
    fn next(&mut self) -> Option<SourceEntry>;

    /// Whether the snapshot would list a file at this path if it existed. Documents at other paths are not removed.
    fn covers(&self, _path: &str) -> bool {
        true
    }

    /// Reads a listed file.
    fn read(&mut self, file: &SourceFile) -> Result<Vec<u8>, ReadError>;
}

/// Bounds on what is read from a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimits {
    /// Bytes of a file; larger files are skipped.
    pub file_bytes: u64,
    /// Files of a source; a source with more is rejected.
    pub files: usize,
    /// Time to fetch a repository.
    pub fetch_time: Duration,
    /// Bytes of a fetched repository on disk.
    pub fetch_bytes: u64,
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self {
            file_bytes: 2 << 20,
            files: 1_000_000,
            fetch_time: Duration::from_secs(15 * 60),
            fetch_bytes: 4 << 30,
        }
    }
}

/// The properties that all files of a source have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoot {
    /// How the documents are ingested.
    pub kind: SourceKind,
    /// The address of the repository, or of the folder as a `file:` URL; without credentials.
    pub repo_url: String,
    /// The path of the source within the repository, with a slash at its end; empty for the whole repository.
    pub prefix: String,
    /// The commit of the files.
    pub commit: Option<String>,
    /// The Docusaurus site that publishes the pages.
    pub site: Option<DocusaurusSite>,
}

/// A listed file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEntry {
    /// A file that can be read.
    File(SourceFile),
    /// A file or folder that is not ingested.
    Skipped {
        /// The path within the source.
        path: String,
        /// Why.
        reason: SkipReason,
    },
    /// A file or folder that cannot be examined. Its documents in the catalog are not removed.
    Failed {
        /// The path within the source.
        path: String,
        /// What is wrong and what to do.
        message: String,
    },
}

impl SourceEntry {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::File(file) => &file.path,
            Self::Skipped { path, .. } | Self::Failed { path, .. } => path,
        }
    }
}

/// A file of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path within the source, with slashes.
    pub path: String,
    /// An identifier of the content, such as a git object id, if it is known without reading the file.
    pub version: Option<String>,
}

/// Why a file or folder is not ingested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// It is not text.
    Binary,
    /// It has only white space.
    Empty,
    /// It is generated, or installed by a package manager.
    Generated,
    /// Its name begins with a dot.
    Hidden,
    /// It is a symbolic link, a submodule or another special file.
    Link,
    /// It is larger than [`SourceLimits::file_bytes`].
    Oversized,
    /// It contains a key or a password, by its name or its first line.
    Secret,
}

impl SkipReason {
    /// The name that summaries show.
    pub fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Empty => "empty",
            Self::Generated => "generated",
            Self::Hidden => "hidden",
            Self::Link => "link",
            Self::Oversized => "oversized",
            Self::Secret => "secret",
        }
    }
}
