//! Chunks as passages need them: with their words and what is told of their documents. Of a long document only
//! the words that are asked for are read.

use std::ops::Range;

use domain::{Chunk, ChunkId, ChunkKind, Principal, StoredChunk};
use rusqlite::blob::Blob;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::documents;
use crate::sqlite::uuid;

/// Bytes of what stands before a chunk: about as many as a short paragraph has.
const BEFORE: usize = 400;

/// Characters in which a word ends.
const LONGEST_WORD: usize = 40;

/// The chunks with these ids, in this order; those that are gone are left out.
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
    let mut words = Words { db, open: None };
    let mut pieces = Vec::with_capacity(chunks.len());
    for id in chunks {
        let found = find.query_row(params![who.tenant, id.0.as_bytes()], |row| {
            Ok((row.get(0)?, documents::from_row(row)?.document, from_row(row, documents::WIDTH)?))
        });
        let Some((number, document, chunk)) = found.optional()? else { continue };
        let (before, text) = words.read(number, &chunk.bytes)?;
        pieces.push(StoredChunk { chunk, text, before, document });
    }
    Ok(pieces)
}

/// Reads pieces of texts where they lie.
struct Words<'db> {
    db: &'db Connection,
    open: Option<Blob<'db>>,
}

impl Words<'_> {
    /// A piece of the text of the document with this number, behind the last words before it.
    fn read(&mut self, document: i64, bytes: &Range<usize>) -> rusqlite::Result<(String, String)> {
        let text = match &mut self.open {
            Some(text) => {
                text.reopen(document)?;
                text
            }
            None => self.open.insert(self.db.blob_open("main", "texts", "body", document, true)?),
        };
        let start = bytes.start.saturating_sub(BEFORE);
        let mut before = vec![0; bytes.end.max(start) - start];
        text.read_at_exact(&mut before, start)?;
        let words = before.split_off(bytes.start - start);
        // Ranges were checked when the document was filed.
        Ok((last_words(&before, start > 0), String::from_utf8(words).unwrap_or_default()))
    }
}

/// A text without the character, and the word, that it may begin within.
fn last_words(bytes: &[u8], is_cut: bool) -> String {
    let is_within_a_character = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let first = bytes.iter().take_while(is_within_a_character).count();
    let text = str::from_utf8(&bytes[first..]).unwrap_or_default().trim_end();
    // Not every script has spaces, and not every text has words.
    let mut begun = text.char_indices().take(if is_cut { LONGEST_WORD } else { 0 });
    let end = begun.find(|(_, character)| character.is_whitespace()).map_or(0, |(at, _)| at);
    let text = &text[end..];
    text.strip_prefix(' ').unwrap_or(text).to_owned()
}

/// The columns of a chunk, as `from_row` reads them.
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
