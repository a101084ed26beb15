//! Revisions: one number per transaction that changes the catalog. Only a writing transaction may take the next one,
//! because it holds the file's lock.

use rusqlite::Connection;

/// The revisions of this catalog. The first one is the empty catalog.
pub(super) fn known(db: &Connection) -> rusqlite::Result<std::ops::RangeInclusive<u64>> {
    db.prepare_cached("SELECT begun, latest FROM revisions")?
        .query_row([], |row| Ok(row.get(0)?..=row.get(1)?))
}

/// Runs `work` with the next revision, which is stored only if it changed something.
pub(super) fn with_next<T>(
    db: &Connection,
    work: impl FnOnce(u64) -> rusqlite::Result<Changed<T>>,
) -> rusqlite::Result<T> {
    let next = known(db)?.end() + 1;
    let Changed { something, outcome } = work(next)?;
    if something {
        db.prepare_cached("UPDATE revisions SET latest = ?")?.execute([next])?;
    }
    Ok(outcome)
}

/// The outcome of a write, and whether it changed anything.
pub(super) struct Changed<T> {
    pub(super) something: bool,
    pub(super) outcome: T,
}
