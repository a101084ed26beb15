//! Tombstones: the rows of `removed`, by which a follower learns that chunks are gone. The column `told` is the revision
//! under which the change feed announces the removal.

use domain::{ChunkId, DocumentId, Principal};
use rusqlite::{Connection, params};

/// How many revisions a follower may be behind and still see every document wholly old or wholly new. Without a
/// bound, each change of a document would announce every chunk that it ever lost.
const MAX_LAG: u64 = 1_000;

/// Announces that a chunk is gone.
pub(super) fn add(
    db: &Connection,
    who: &Principal,
    document: DocumentId,
    chunk: [u8; 16],
    revision: u64,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO removed (tenant, chunk, document, revision, told) VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT DO UPDATE SET revision = excluded.revision, told = excluded.told",
    )?
    .execute(params![who.tenant, chunk, document.0.as_bytes(), revision])?;
    Ok(())
}

/// Moves the recent tombstones of a document that changes again to the revision of this change. A follower that has
/// not seen them yet would otherwise have neither the old document nor the new one.
pub(super) fn postpone(
    db: &Connection,
    who: &Principal,
    document: DocumentId,
    revision: u64,
) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE removed SET told = ? WHERE tenant = ? AND document = ? AND revision > ?")?
        .execute(params![revision, who.tenant, document.0.as_bytes(), revision.saturating_sub(MAX_LAG)])?;
    Ok(())
}

/// Deletes the tombstone of a chunk that exists again.
pub(super) fn delete(db: &Connection, who: &Principal, chunk: ChunkId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM removed WHERE tenant = ? AND chunk = ?")?
        .execute(params![who.tenant, chunk.0.as_bytes()])?;
    Ok(())
}
