//! Removing documents.

use domain::{DocumentId, Principal};
use rusqlite::{Connection, OptionalExtension, params};

use super::revisions::{self, Changed};
use super::tombstones;

/// Removes documents in one revision, and counts those that existed.
pub(super) fn remove(db: &Connection, who: &Principal, documents: &[DocumentId]) -> rusqlite::Result<u64> {
    revisions::with_next(db, |revision| {
        let mut count = 0;
        for id in documents {
            count += u64::from(remove_one(db, who, *id, revision)?);
        }
        Ok(Changed { something: count > 0, outcome: count })
    })
}

fn remove_one(db: &Connection, who: &Principal, id: DocumentId, revision: u64) -> rusqlite::Result<bool> {
    let number = db
        .prepare_cached("SELECT number FROM documents WHERE tenant = ? AND id = ?")?
        .query_row(params![who.tenant, id.0.as_bytes()], |row| row.get::<_, i64>(0))
        .optional()?;
    let Some(number) = number else { return Ok(false) };
    tombstones::postpone(db, who, id, revision)?;
    let chunks: Vec<[u8; 16]> = db
        .prepare_cached("SELECT id FROM chunks WHERE document = ?")?
        .query_map([number], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for chunk in chunks {
        tombstones::add(db, who, id, chunk, revision)?;
    }
    db.prepare_cached("DELETE FROM documents WHERE number = ?")?.execute([number])?;
    Ok(true)
}
