//! Removing documents, and telling which chunks are gone.

use domain::{ChunkId, DocumentId, Principal};
use rusqlite::{Connection, OptionalExtension, params};

use super::revision::{self, Changed};

/// Whoever is no more than so many revisions behind sees every document wholly old or wholly new. Without a
/// bound, a document that changes often would have all that it ever lost told with every change.
const RECENT: u64 = 1_000;

/// Removes documents, in one revision, and tells how many there were.
pub(super) fn all(db: &Connection, who: &Principal, documents: &[DocumentId]) -> rusqlite::Result<u64> {
    revision::with_next(db, |revision| {
        let mut count = 0;
        for id in documents {
            count += u64::from(remove(db, who, *id, revision)?);
        }
        Ok(Changed { something: count > 0, outcome: count })
    })
}

fn remove(db: &Connection, who: &Principal, id: DocumentId, revision: u64) -> rusqlite::Result<bool> {
    let number = db
        .prepare_cached("SELECT number FROM documents WHERE tenant = ? AND id = ?")?
        .query_row(params![who.tenant, id.0.as_bytes()], |row| row.get::<_, i64>(0))
        .optional()?;
    let Some(number) = number else { return Ok(false) };
    tell_again(db, who, id, revision)?;
    let chunks: Vec<[u8; 16]> = db
        .prepare_cached("SELECT id FROM chunks WHERE document = ?")?
        .query_map([number], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for chunk in chunks {
        tell(db, who, id, chunk, revision)?;
    }
    db.prepare_cached("DELETE FROM documents WHERE number = ?")?.execute([number])?;
    Ok(true)
}

/// A chunk is gone.
pub(super) fn tell(
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

/// A document changes once more. What it lost lately is told with that, and not before: somebody who has not
/// heard of it yet would have neither the old document nor the new one.
pub(super) fn tell_again(
    db: &Connection,
    who: &Principal,
    document: DocumentId,
    revision: u64,
) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE removed SET told = ? WHERE tenant = ? AND document = ? AND revision > ?")?
        .execute(params![revision, who.tenant, document.0.as_bytes(), revision.saturating_sub(RECENT)])?;
    Ok(())
}

/// A chunk is there again.
pub(super) fn tell_no_more(db: &Connection, who: &Principal, chunk: ChunkId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM removed WHERE tenant = ? AND chunk = ?")?
        .execute(params![who.tenant, chunk.0.as_bytes()])?;
    Ok(())
}
