//! Why an index cannot be opened, and what to do about it.

use std::path::Path;
use std::{fmt, io};

use tantivy::TantivyError;

/// Why an index cannot be opened.
#[derive(Debug)]
pub enum Unusable {
    /// Its vectors are of another model, and vectors of different models are never compared.
    OtherModel {
        /// The model of its vectors.
        made_with: String,
        /// The model that was asked for.
        configured: String,
    },
    /// Another release made it, in another way.
    OtherFormat,
    /// Another process uses it.
    InUse,
    /// It cannot be read.
    Damaged(String),
    /// Its folder cannot be used; the reason names it.
    NoAccess(String),
}

impl Unusable {
    /// Whether an index that is made anew would be usable. What is searched is derived from the catalog, so
    /// nothing is lost by that.
    pub fn is_mended_by_beginning_anew(&self) -> bool {
        matches!(self, Self::OtherModel { .. } | Self::OtherFormat | Self::Damaged(_))
    }

    pub(crate) fn from_io(folder: &Path, error: &io::Error) -> Self {
        Self::NoAccess(format!("the folder {} of the index cannot be used: {error}", folder.display()))
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherModel { made_with, configured } => write!(
                f,
                "the index was made with the embedding model {made_with}, and {configured} is configured: \
                 run `wellspring reindex`, or configure {made_with} again"
            ),
            Self::OtherFormat => f.write_str(
                "the index was made by another release, in another format: run `wellspring reindex`",
            ),
            Self::InUse => f.write_str("another process uses the index: stop it first"),
            Self::Damaged(reason) => {
                write!(f, "the index cannot be read: {reason}: run `wellspring reindex`")
            }
            Self::NoAccess(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Unusable {}

impl From<TantivyError> for Unusable {
    fn from(error: TantivyError) -> Self {
        match error {
            TantivyError::LockFailure(..) => Self::InUse,
            TantivyError::SchemaError(_) => Self::OtherFormat,
            TantivyError::IoError(error) => {
                Self::NoAccess(format!("the files of the index cannot be used: {error}"))
            }
            error => Self::Damaged(error.to_string()),
        }
    }
}
