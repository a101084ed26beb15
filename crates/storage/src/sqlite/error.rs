//! SQLite's errors as storage errors.

use domain::{StorageError, StorageErrorKind};
use rusqlite::ErrorCode;

/// Classifies an error of SQLite. The message names the file, what is wrong and, where it is known, what to do.
pub(crate) fn storage_error(file: &str, error: rusqlite::Error) -> StorageError {
    let (kind, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (StorageErrorKind::Full, ": free space on its disk"),
        Some(ErrorCode::ReadOnly) => (StorageErrorKind::ReadOnly, ""),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            StorageErrorKind::Locked,
            ": another process has been writing to it for too long; try again when it is done",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            (StorageErrorKind::Damaged, ": it is damaged; the next start sets it aside and begins a new one")
        }
        _ => (StorageErrorKind::Other, ""),
    };
    StorageError::new(kind, format!("{file}: {error}{advice}")).caused_by(error)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn an_error_has_the_kind_of_its_sqlite_code() {
        for (code, kind) in [
            (ffi::SQLITE_FULL, StorageErrorKind::Full),
            (ffi::SQLITE_READONLY_DBMOVED, StorageErrorKind::ReadOnly),
            (ffi::SQLITE_BUSY_SNAPSHOT, StorageErrorKind::Locked),
            (ffi::SQLITE_LOCKED, StorageErrorKind::Locked),
            (ffi::SQLITE_CORRUPT_INDEX, StorageErrorKind::Damaged),
            (ffi::SQLITE_NOTADB, StorageErrorKind::Damaged),
            (ffi::SQLITE_CONSTRAINT, StorageErrorKind::Other),
        ] {
            let cause = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = storage_error("some.db", cause);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().starts_with("some.db: "), "{error}");
        }
    }
}
