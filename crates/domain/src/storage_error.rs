//! The error of the ports that store something.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An operation of a store that failed. The message says what is wrong and what to do.
#[derive(Clone, Debug)]
pub struct StorageError {
    kind: StorageErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kinds of storage errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageErrorKind {
    /// The disk, or a configured bound on stored bytes, is full.
    Full,
    /// The file or its file system is read-only.
    ReadOnly,
    /// Another process holds the lock of the data folder or the database.
    Locked,
    /// The stored data cannot be decoded: a checksum, a header or a stored form is wrong.
    Damaged,
    /// The store did not answer in time.
    Busy,
    /// Any other error.
    Other,
}

impl StorageError {
    /// An error without a source.
    pub fn new(kind: StorageErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// An error of kind `Other`, which no caller branches on.
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(StorageErrorKind::Other, message)
    }

    /// Sets the source.
    #[must_use]
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// The kind to branch on.
    pub fn kind(&self) -> StorageErrorKind {
        self.kind
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Written by hand, so that the source is the error itself and not the `Arc` that shares it.
impl Error for StorageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// Errors are equal if they say the same; the cause is not compared.
impl PartialEq for StorageError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message) == (other.kind, &other.message)
    }
}

impl Eq for StorageError {}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_source_can_be_downcast() {
        let error = StorageError::other("no room").caused_by(io::Error::from(io::ErrorKind::StorageFull));
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    }
}
