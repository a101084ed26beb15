//! Errors of loading a model.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

type BoxError = Box<dyn Error + Send + Sync>;

/// A file or folder of a model that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{} {problem}{}", .path.display(), .problem.advice())]
pub(crate) struct InvalidModel {
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) problem: ModelProblem,
}

/// What is wrong with a model's file. The messages continue the file's path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelProblem {
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The magic number is wrong.
    #[error("is not a model: its magic number is wrong")]
    WrongMagic,
    /// The file ends before the end of `part`.
    #[error("is cut off: {part} would end at byte {needed}, the file ends at {length}")]
    Truncated { part: String, needed: u64, length: u64 },
    /// A part that describes the rest (a header, a config, a tokenizer) cannot be parsed or is inconsistent.
    #[error("has a damaged {part}: {reason}")]
    Malformed {
        part: &'static str,
        #[source]
        reason: BoxError,
    },
    #[error("has no tensor {0}")]
    MissingTensor(String),
    #[error("has a tensor {name} of shape {found:?}, which must be {expected:?}")]
    TensorShape { name: String, expected: Vec<usize>, found: Vec<usize> },
    /// A tensor contains infinite or undefined numbers.
    #[error("has a tensor {0} with infinite or undefined numbers")]
    TensorNumbers(String),
    #[error("cannot be run here: {0}")]
    Unsupported(#[from] UnsupportedModel),
}

/// Why a valid model cannot be run by this embedder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnsupportedModel {
    #[error("it is a {0}, not a BERT or RoBERTa")]
    ModelType(String),
    #[error("its activation is {0}, not gelu")]
    Activation(String),
    #[error("its positions are not absolute")]
    RelativePositions,
    #[error("its pooling is {0}, not cls or mean")]
    Pooling(String),
    #[error("its pooling is neither cls nor mean alone")]
    CombinedPooling,
    #[error("it requires a prefix before each text")]
    Prefix,
    #[error("its sizes {sizes:?} are not all from 1 to {max}")]
    Sizes { max: usize, sizes: [usize; 6] },
    #[error("its hidden size {hidden} is not a multiple of its {heads} heads")]
    Heads { heads: usize, hidden: usize },
    #[error("{token_limit} tokens from position {offset} on need {} positions", .token_limit + .offset)]
    Positions { token_limit: usize, offset: usize },
    #[error("its norms' epsilon {0} is not between 0 and 1")]
    Epsilon(f32),
    #[error("{name} has groups of {group} that do not divide its width {width}")]
    Groups { name: String, group: usize, width: usize },
    #[error("{0} is larger than this machine can address")]
    TooLarge(String),
}

impl ModelProblem {
    fn advice(&self) -> &'static str {
        match self {
            Self::Unsupported(_) => "; choose another embedding.model",
            _ => "; fetch the model again with `wellspring models pull`",
        }
    }
}

impl InvalidModel {
    pub(crate) fn new(path: &Path, problem: impl Into<ModelProblem>) -> Self {
        Self { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn malformed(path: &Path, part: &'static str, reason: impl Into<BoxError>) -> Self {
        Self::new(path, ModelProblem::Malformed { part, reason: reason.into() })
    }
}
