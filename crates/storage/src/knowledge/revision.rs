//! Revisions: one for each transaction that changes something. Only the transaction that will write it may ask
//! for the next one, because it holds the file's lock.

use rusqlite::Connection;

/// The revisions that this catalog has given out; it was empty at the first.
pub(super) fn known(db: &Connection) -> rusqlite::Result<std::ops::RangeInclusive<u64>> {
    db.prepare_cached("SELECT begun, latest FROM revisions")?
        .query_row([], |row| Ok(row.get(0)?..=row.get(1)?))
}

/// Runs `work` with the revision that its changes have, which counts only if it changed something.
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

/// What came of some work, and whether it changed anything.
pub(super) struct Changed<T> {
    pub(super) something: bool,
    pub(super) outcome: T,
}
