//! Errors of the file system as storage errors.

use std::fmt::Display;
use std::io::{self, ErrorKind};

use domain::{StorageError, StorageErrorKind};

/// Classifies an I/O error. The subject, a path or an operation, begins the message.
pub(crate) fn storage_error(subject: impl Display, error: io::Error) -> StorageError {
    let kind = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StorageErrorKind::Full,
        ErrorKind::ReadOnlyFilesystem => StorageErrorKind::ReadOnly,
        _ => StorageErrorKind::Other,
    };
    StorageError::new(kind, format!("{subject}: {error}")).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_has_a_kind_a_subject_and_a_source() {
        for (errno, kind) in [
            (28, StorageErrorKind::Full),
            (122, StorageErrorKind::Full),
            (30, StorageErrorKind::ReadOnly),
            (5, StorageErrorKind::Other),
        ] {
            let error = storage_error("/data", io::Error::from_raw_os_error(errno));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().starts_with("/data: "), "{error}");
            assert!(std::error::Error::source(&error).is_some(), "{error}");
        }
    }
}
