//! Why a chat model cannot be loaded.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a chat model cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// This build uses instructions that the processor lacks.
    #[error(
        "this processor lacks {0}, which this build of Wellspring uses for models in the process: build it on this \
         machine, or with `make NATIVE=0` for any with AVX2, or use a provider that is a server of its own (kind = \
         \"ollama\" or \"openai\")"
    )]
    UnsupportedCpu(String),
    /// The model's file is missing or not the expected one.
    #[error(transparent)]
    NotFound(Box<dyn Error + Send + Sync>),
    /// The file is there, but no model can be loaded from it.
    #[error("{}: {source}", path.display())]
    UnusableFile {
        /// The GGUF file.
        path: PathBuf,
        /// What is wrong.
        source: ModelError,
    },
}

/// What is wrong with a GGUF file, or with running its model.
#[derive(Debug, Error)]
pub enum ModelError {
    /// llama.cpp rejects the file; its own words.
    #[error("{0}")]
    Rejected(String),
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An embedding model, or one without a vocabulary.
    #[error("it is not a model that generates text")]
    NotGenerative,
    /// The chat template is missing or cannot be rendered.
    #[error("{0}")]
    ChatTemplate(&'static str),
    /// `context_window` exceeds what llama.cpp can address.
    #[error("context_window is too large")]
    WindowTooLarge,
    /// There is not enough memory for the KV cache; llama.cpp's own words.
    #[error("there is not enough memory for its KV cache: {0}")]
    OutOfMemory(String),
    /// The compute threads cannot be started.
    #[error("its threads cannot be started")]
    NoThreads,
    /// llama.cpp could not compute a batch; its code.
    #[error("llama.cpp cannot compute a batch (code {0})")]
    Decode(i32),
}

impl ModelError {
    /// The load error of the file at `path`.
    pub(super) fn at(self, path: impl Into<PathBuf>) -> LoadError {
        LoadError::UnusableFile { path: path.into(), source: self }
    }
}
