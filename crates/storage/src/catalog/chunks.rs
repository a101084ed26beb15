//! Chunks with their texts and documents, as passages need them. Of a long document's text only the ranges of the
//! chunks are read.

use std::ops::Range;

use domain::{Chunk, ChunkId, ChunkKind, Principal, StoredChunk};
use rusqlite::blob::Blob;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::documents;
use crate::sqlite::uuid;

/// The chunks with these ids, in this order, without those that are gone.
pub(super) fn find(
    db: &Connection,
    who: &Principal,
    chunks: &[ChunkId],
) -> rusqlite::Result<Vec<StoredChunk>> {
    let mut find = db.prepare_cached(&format!(
        "SELECT {}, {COLUMNS} FROM chunks JOIN documents ON documents.number = chunks.document
         WHERE chunks.tenant = ? AND chunks.id = ?",
        documents::COLUMNS
    ))?;
    let mut texts = TextBlobs { db, open: None };
    let mut found = Vec::with_capacity(chunks.len());
    for id in chunks {
        let row = find.query_row(params![who.tenant, id.0.as_bytes()], |row| {
            Ok((row.get(0)?, documents::from_row(row)?.document, from_row(row, documents::COLUMN_COUNT)?))
        });
        let Some((number, document, chunk)) = row.optional()? else { continue };
        let text = texts.read(number, &chunk.bytes)?;
        found.push(StoredChunk { chunk, text, document });
    }
    Ok(found)
}

/// Reads ranges of documents' texts without reading the whole texts.
struct TextBlobs<'db> {
    db: &'db Connection,
    open: Option<Blob<'db>>,
}

impl TextBlobs<'_> {
    /// A range of the text of the document with this number.
    fn read(&mut self, document: i64, bytes: &Range<usize>) -> rusqlite::Result<String> {
        let text = match &mut self.open {
            Some(text) => {
                text.reopen(document)?;
                text
            }
            None => self.open.insert(self.db.blob_open("main", "texts", "body", document, true)?),
        };
        let mut slice = vec![0; bytes.len()];
        text.read_at_exact(&mut slice, bytes.start)?;
        // Ranges were validated when the document was put.
        Ok(String::from_utf8(slice).unwrap_or_default())
    }
}

/// The columns that `from_row` reads.
const COLUMNS: &str =
    "chunks.id, first_byte, end_byte, first_line, last_line, kind, section, subsection, anchor, context";

fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Chunk> {
    let kind: Option<String> = row.get(first + 5)?;
    Ok(Chunk {
        id: ChunkId(uuid(row, first)?),
        bytes: Range { start: row.get(first + 1)?, end: row.get(first + 2)? },
        lines: (row.get(first + 3)?, row.get(first + 4)?),
        kind: kind.as_deref().and_then(kind_named),
        section: row.get(first + 6)?,
        subsection: row.get(first + 7)?,
        anchor: row.get(first + 8)?,
        context: row.get(first + 9)?,
    })
}

pub(super) fn kind_name(kind: ChunkKind) -> &'static str {
    match kind {
        ChunkKind::Section => "section",
        ChunkKind::Subsection => "subsection",
        ChunkKind::ParagraphGroup => "paragraph_group",
    }
}

fn kind_named(name: &str) -> Option<ChunkKind> {
    match name {
        "section" => Some(ChunkKind::Section),
        "subsection" => Some(ChunkKind::Subsection),
        "paragraph_group" => Some(ChunkKind::ParagraphGroup),
        _ => None,
    }
}
