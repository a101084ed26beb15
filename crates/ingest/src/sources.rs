//! Where documents come from. A source tells what is there now; what of it is new, changed or gone is found out
//! by comparing with the catalog, so a source remembers nothing.

mod folder;
mod repository;
pub(crate) mod rules;
mod site;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::names::Site;
pub use folder::Folder;
pub use repository::Repository;

/// A folder, a repository: something with files in it. It is asked on a thread that may block.
pub trait Source: Send + Sync {
    /// Looks at what is there now. That may take long: a repository may have to be fetched.
    fn open(&self) -> Result<Box<dyn Opened>, SourceError>;
}

/// A source as it is at one moment.
pub trait Opened: Send {
    /// What all its files have in common.
    fn root(&self) -> &Root;

    /// How many entries there are, if that is known before they are told.
    fn total(&self) -> Option<u64>;

    /// The next entry; none at the end. Nothing is ever told that lies outside the source.
    fn next(&mut self) -> Option<Entry>;

    /// Whether this path in the source would have been told if there were a file. What is known of others stays.
    fn covers(&self, _path: &str) -> bool {
        true
    }

    /// Reads a file that was told.
    fn read(&mut self, file: &File) -> Result<Vec<u8>, Unread>;
}

/// How much of a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file; larger ones are left out.
    pub file_bytes: u64,
    /// Files of a source; one with more is not read.
    pub files: usize,
    /// How long a repository may take to be fetched.
    pub fetch_time: Duration,
    /// Bytes that a fetched repository may take on disk.
    pub fetch_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 2 << 20,
            files: 1_000_000,
            fetch_time: Duration::from_secs(15 * 60),
            fetch_bytes: 4 << 30,
        }
    }
}

/// What all files of a source have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// How its documents come here.
    pub kind: domain::SourceKind,
    /// The repository, or the folder as an address. It never has credentials in it.
    pub repo_url: String,
    /// Where in the repository this is, with a slash at its end; empty for the whole of it.
    pub prefix: String,
    /// The commit that is read.
    pub commit: Option<String>,
    /// The site that its pages are shown on.
    pub site: Option<Site>,
}

/// What a source tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file that can be read.
    File(File),
    /// A file or folder that is left out.
    Skipped {
        /// Its path.
        path: String,
        /// Why.
        reason: Skip,
    },
    /// A file or folder that cannot be looked at. What is known of it stays.
    Failed {
        /// Its path.
        path: String,
        /// What is wrong and what to do.
        message: String,
    },
}

impl Entry {
    /// Its path in the source.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::File(file) => &file.path,
            Self::Skipped { path, .. } | Self::Failed { path, .. } => path,
        }
    }
}

/// A file of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the source, with slashes.
    pub path: String,
    /// What names its content and changes with it, if that is known without reading it.
    pub version: Option<String>,
}

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is to be left out.
    Skipped(Skip),
    /// It cannot be read; what is wrong and what to do.
    Failed(String),
}

/// Why a file or folder is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// It is not text.
    Binary,
    /// It has nothing but white space.
    Empty,
    /// A program wrote it.
    Generated,
    /// Its name begins with a dot.
    Hidden,
    /// It is a link, or another thing that is no file.
    Link,
    /// It is larger than a file may be.
    Oversized,
    /// It holds, or looks as if it held, a key or a password.
    Secret,
}

impl Skip {
    /// A word for it.
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

/// Why a source could not be opened: what is wrong and what to do. It never has credentials in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError(pub String);

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for SourceError {}
