//! Errors of opening an index.

use std::io;
use std::path::{Path, PathBuf};

use tantivy::TantivyError;

/// Why an index cannot be opened. The message says what to do. `OtherModel`, `OtherFormat` and `Damaged` are
/// fixed by a rebuild, which loses nothing because the index is derived from the catalog.
#[derive(Debug, thiserror::Error)]
pub enum OpenIndexError {
    /// Another embedding model made the vectors. Vectors of different models cannot be compared.
    #[error(
        "the index was made with the embedding model {made_with}, and {configured} is configured: run \
         `wellspring reindex`, or configure {made_with} again"
    )]
    OtherModel {
        /// The model of the stored vectors.
        made_with: String,
        /// The model that was asked for.
        configured: String,
    },
    /// Another release made the index, in another format.
    #[error("the index was made by another release, in another format: run `wellspring reindex`")]
    OtherFormat,
    /// Another process holds the lock of the folder.
    #[error("another process uses the index: stop it first")]
    InUse,
    /// The content of the files is wrong.
    #[error("the index cannot be read: {0}: run `wellspring reindex`")]
    Damaged(#[source] TantivyError),
    /// The folder cannot be created, listed or emptied.
    #[error("the folder {} of the index cannot be used: {error}", .folder.display())]
    Folder {
        /// The index's folder.
        folder: PathBuf,
        /// What the file system reported.
        #[source]
        error: io::Error,
    },
    /// A file of the index cannot be read or written.
    #[error("the files of the index cannot be used: {0}")]
    Files(#[source] TantivyError),
}

impl OpenIndexError {
    pub(crate) fn folder(folder: &Path, error: io::Error) -> Self {
        Self::Folder { folder: folder.to_owned(), error }
    }
}

impl From<TantivyError> for OpenIndexError {
    fn from(error: TantivyError) -> Self {
        match error {
            TantivyError::LockFailure(..) => Self::InUse,
            TantivyError::SchemaError(_) => Self::OtherFormat,
            TantivyError::IoError(_) => Self::Files(error),
            error => Self::Damaged(error),
        }
    }
}
