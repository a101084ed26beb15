//! Why a model's files cannot be used.

use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// A file of a model that cannot be used, and why.
#[derive(Debug)]
pub struct InvalidModel {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a model's file.
#[derive(Debug)]
pub enum Problem {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is of another kind: its first bytes are not those of a model.
    OtherKind,
    /// It ends before something that it should have.
    Short {
        /// What is not there in whole.
        what: String,
        /// Where it would end.
        needed: u64,
        /// Where the file ends.
        length: u64,
    },
    /// Something that describes the model cannot be understood.
    Description {
        /// The part of the file.
        what: &'static str,
        /// What was found.
        reason: String,
    },
    /// A tensor that the model needs is not in the file.
    MissingTensor(String),
    /// A tensor has another shape than the model's architecture says.
    TensorShape {
        /// The tensor.
        name: String,
        /// The shape that it must have.
        expected: Vec<usize>,
        /// The shape that it has.
        found: Vec<usize>,
    },
    /// A tensor has numbers that are infinite or none.
    TensorNumbers(String),
    /// The model is of a kind that this embedder cannot run.
    Unsupported(String),
}

impl InvalidModel {
    pub(crate) fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_owned(), problem }
    }

    pub(crate) fn description(path: &Path, what: &'static str, reason: impl fmt::Display) -> Self {
        Self::new(path, Problem::Description { what, reason: reason.to_string() })
    }

    pub(crate) fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::new(path, Problem::Unsupported(what.into()))
    }
}

impl fmt::Display for InvalidModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::Unreadable(error) => write!(f, "{path} cannot be read: {error}"),
            Problem::OtherKind => write!(f, "{path} is not a model: its first bytes are others"),
            Problem::Short { what, needed, length } => {
                write!(f, "{path} is cut off: {what} would end at byte {needed}, the file ends at {length}")
            }
            Problem::Description { what, reason } => write!(f, "{path} has a damaged {what}: {reason}"),
            Problem::MissingTensor(name) => write!(f, "{path} has no tensor {name}"),
            Problem::TensorShape { name, expected, found } => {
                write!(f, "{path} has a tensor {name} of shape {found:?}, which must be {expected:?}")
            }
            Problem::TensorNumbers(name) => {
                write!(f, "{path} has a tensor {name} with infinite or undefined numbers")
            }
            Problem::Unsupported(what) => write!(f, "{path} cannot be run here: {what}"),
        }?;
        match &self.problem {
            Problem::Unsupported(_) => f.write_str("; choose another embedding.model"),
            _ => f.write_str("; fetch the model again with `wellspring models pull`"),
        }
    }
}

impl error::Error for InvalidModel {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.problem {
            Problem::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}
