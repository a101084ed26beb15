//! The words of chunks, which are pieces of their documents' texts and stored nowhere else.

use std::ops::Range;

use rusqlite::Connection;

/// Reads pieces of texts. Pieces of one document that are asked for one after the other read it once.
pub(super) struct Texts<'db> {
    db: &'db Connection,
    document: Option<i64>,
    body: String,
}

impl<'db> Texts<'db> {
    pub(super) fn new(db: &'db Connection) -> Self {
        Self { db, document: None, body: String::new() }
    }

    /// A piece of the text of the document with this number.
    pub(super) fn piece(&mut self, document: i64, bytes: Range<usize>) -> rusqlite::Result<&str> {
        if self.document != Some(document) {
            self.body = self
                .db
                .prepare_cached("SELECT body FROM texts WHERE document = ?")?
                .query_row([document], |row| row.get(0))?;
            self.document = Some(document);
        }
        // Ranges were checked when the document was filed.
        Ok(self.body.get(bytes).unwrap_or_default())
    }
}
