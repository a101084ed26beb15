//! The error of every command. `main` prints it as `wellspring: MESSAGE` and exits with 1.

use std::error::Error;
use std::io;

use domain::{Failure, Rejection, StorageError};

use super::eval::CollectionError;
use super::server_client::ServerError;
use crate::logging::LoggingError;
use crate::running_server::RunningServer;
use crate::settings::SettingsError;
use crate::warmup::WarmupError;
use crate::wiring::WiringError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// A store, an index or a provider cannot be opened.
    #[error(transparent)]
    Wiring(#[from] WiringError),
    /// A call to a server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Collection(#[from] CollectionError),
    /// The arguments or the standard input ask for something impossible; the message says what is allowed.
    #[error("{0}")]
    Usage(String),
    /// With `storage.kind = "memory"` there is nothing in the data folder to work on.
    #[error("storage.kind is \"memory\"{0}")]
    NothingStored(&'static str),
    /// A server runs on the data folder, and the command needs it for itself.
    #[error("{0} uses this data folder: stop it first")]
    ServerRuns(RunningServer),
    /// A prefix cache could not be warmed up.
    #[error("{provider}: {source}")]
    Warmup { provider: String, source: WarmupError },
    /// The engine refused the prompt.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A model or the retriever failed.
    #[error("{}", .0.message)]
    Failed(Failure),
    #[error("storage: {0}")]
    Storage(#[from] StorageError),
    /// The prompt ended with an error, or not at all.
    #[error("{0}")]
    NoAnswer(String),
    /// Part of the work was done; the message says what is left.
    #[error("{0}")]
    Incomplete(String),
    #[error("standard output cannot be written to: {0}")]
    Stdout(#[source] io::Error),
    /// An error of another crate that no caller branches on.
    #[error(transparent)]
    Other(Box<dyn Error>),
}

impl CommandError {
    /// An error of another crate that no caller branches on.
    pub(super) fn other(error: impl Error + 'static) -> Self {
        Self::Other(Box::new(error))
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// An error of the asynchronous runtime or the operating system that names itself.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}
