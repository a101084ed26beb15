//! The texts of chunks. A chunk's text is a byte range of its document's text and stored nowhere else.

use std::ops::Range;

use rusqlite::Connection;

/// Reads ranges of documents' texts. Consecutive ranges of the same document read its text once.
pub(super) struct DocumentTexts<'db> {
    db: &'db Connection,
    document: Option<i64>,
    text: String,
}

impl<'db> DocumentTexts<'db> {
    pub(super) fn new(db: &'db Connection) -> Self {
        Self { db, document: None, text: String::new() }
    }

    /// A range of the text of the document with this number.
    pub(super) fn slice(&mut self, document: i64, bytes: Range<usize>) -> rusqlite::Result<&str> {
        if self.document != Some(document) {
            self.text = self
                .db
                .prepare_cached("SELECT body FROM texts WHERE document = ?")?
                .query_row([document], |row| row.get(0))?;
            self.document = Some(document);
        }
        // Ranges were validated when the document was put.
        Ok(self.text.get(bytes).unwrap_or_default())
    }
}
