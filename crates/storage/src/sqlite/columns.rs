//! Columns of UUIDs, which are blobs of 16 bytes.

use rusqlite::Row;
use uuid::Uuid;

pub(crate) fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
}

pub(crate) fn optional_uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    row.get::<_, Option<[u8; 16]>>(column).map(|bytes| bytes.map(Uuid::from_bytes))
}
