//! Chunks with their texts and documents, as passages need them. Of a long document's text only the ranges of the
//! chunks are read.

use std::ops::Range;

use domain::{Chunk, ChunkId, ChunkKind, Principal, StoredChunk};
use rusqlite::blob::Blob;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::documents;
use crate::sqlite::uuid;

/// How much of the text before a chunk is read, in bytes: about a short paragraph.
const BEFORE_BYTES: usize = 400;

/// A cut word is dropped if it ends within this many characters. Anything longer is not a word.
const MAX_WORD_CHARS: usize = 40;

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
        let (before, text) = texts.read(number, &chunk.bytes)?;
        found.push(StoredChunk { chunk, text, before, document });
    }
    Ok(found)
}

/// Reads ranges of documents' texts without reading the whole texts.
struct TextBlobs<'db> {
    db: &'db Connection,
    open: Option<Blob<'db>>,
}

impl TextBlobs<'_> {
    /// The end of the text before a range, and the range, of the document with this number.
    fn read(&mut self, document: i64, bytes: &Range<usize>) -> rusqlite::Result<(String, String)> {
        let text = match &mut self.open {
            Some(text) => {
                text.reopen(document)?;
                text
            }
            None => self.open.insert(self.db.blob_open("main", "texts", "body", document, true)?),
        };
        let start = bytes.start.saturating_sub(BEFORE_BYTES);
        let mut before = vec![0; bytes.end.max(start) - start];
        text.read_at_exact(&mut before, start)?;
        let slice = before.split_off(bytes.start - start);
        // Ranges were validated when the document was put.
        Ok((without_cut_word(&before, start > 0), String::from_utf8(slice).unwrap_or_default()))
    }
}

/// A text without the partial character and the partial word at its beginning.
fn without_cut_word(bytes: &[u8], is_cut: bool) -> String {
    let is_within_a_character = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let first = bytes.iter().take_while(is_within_a_character).count();
    let text = str::from_utf8(&bytes[first..]).unwrap_or_default().trim_end();
    // Some scripts have no spaces, so the end of the cut word may not be found.
    let mut beginning = text.char_indices().take(if is_cut { MAX_WORD_CHARS } else { 0 });
    let end = beginning.find(|(_, character)| character.is_whitespace()).map_or(0, |(at, _)| at);
    let text = &text[end..];
    text.strip_prefix(' ').unwrap_or(text).to_owned()
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
