//! The error of every port that stores something.

use std::error::Error;
use std::sync::Arc;

/// A store could not do what was asked. The message says what is wrong and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct StorageError {
    kind: StorageErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What to branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageErrorKind {
    /// The disk, or a bound of ours on stored bytes, is full.
    Full,
    /// The file or its file system is read-only.
    ReadOnly,
    /// Another process holds the lock of the folder or the database.
    Locked,
    /// What is stored cannot be read back: a checksum, a header or a stored form is wrong.
    Damaged,
    /// The store did not answer in time.
    Busy,
    /// Everything else.
    Other,
}

impl StorageError {
    /// An error of this kind.
    pub fn new(kind: StorageErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// An error that no caller branches on.
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(StorageErrorKind::Other, message)
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same error and cause, with another message.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// What to branch on.
    pub fn kind(&self) -> StorageErrorKind {
        self.kind
    }
}

/// Errors are equal if they say the same; the cause is not compared.
impl PartialEq for StorageError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message) == (other.kind, &other.message)
    }
}

impl Eq for StorageError {}
