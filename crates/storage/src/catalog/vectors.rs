//! The vectors of chunks, by embedding model.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{ChunkId, DocumentId, Principal, UnembeddedChunk};
use rusqlite::{Connection, OptionalExtension, Rows, params};

use super::chunk_text::DocumentTexts;
use super::revisions::{self, Changed};
use crate::sqlite::uuid;

/// Stores vectors in one revision. Those of chunks that are gone are dropped.
pub(super) fn put(
    db: &Connection,
    model: &str,
    vectors: &[(UnembeddedChunk, Vec<f32>)],
) -> rusqlite::Result<()> {
    revisions::with_next(db, |revision| {
        let mut insert = db.prepare_cached(
            "INSERT INTO vectors (chunk, model, revision, vector)
             SELECT number, ?3, ?4, ?5 FROM chunks WHERE tenant = ?1 AND id = ?2
             ON CONFLICT DO UPDATE SET revision = excluded.revision, vector = excluded.vector",
        )?;
        let mut count = 0;
        for (UnembeddedChunk { who, chunk, .. }, vector) in vectors {
            count +=
                insert.execute(params![who.tenant, chunk.0.as_bytes(), model, revision, encode(vector)])?;
        }
        Ok(Changed { something: count > 0, outcome: () })
    })
}

/// A vector is stored as little-endian 32-bit floats.
fn encode(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(super) fn decode(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks();
    numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

/// How far the chunks have vectors, so that a search for those without one skips the rest. Another process's write
/// cannot make it stale: new chunks have higher numbers, and a chunk keeps its vectors as long as it exists.
#[derive(Clone, Default)]
pub(super) struct EmbeddingProgress {
    /// For each model, a chunk number up to which every chunk has a vector.
    up_to: Arc<Mutex<HashMap<String, i64>>>,
}

impl EmbeddingProgress {
    /// Chunks without a vector of the model, at most `limit`, the oldest first.
    pub(super) fn unembedded(
        &self,
        db: &Connection,
        model: &str,
        limit: usize,
    ) -> rusqlite::Result<Vec<UnembeddedChunk>> {
        let up_to = self.advance(db, model)?;
        let mut missing = db.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM chunks CROSS JOIN documents ON documents.number = document
             WHERE {WITHOUT} ORDER BY chunks.number LIMIT ?3"
        ))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        from_rows(db, missing.query(params![up_to, model, limit])?)
    }

    /// Moves on to the first chunk without a vector, from where the last call stopped.
    fn advance(&self, db: &Connection, model: &str) -> rusqlite::Result<i64> {
        let known = self.up_to().get(model).copied().unwrap_or(0);
        let first = db
            .prepare_cached(&format!("SELECT number FROM chunks WHERE {WITHOUT} ORDER BY number LIMIT 1"))?
            .query_row(params![known, model], |row| row.get::<_, i64>(0))
            .optional()?;
        let up_to = match first {
            Some(first) => first - 1,
            None => db
                .prepare_cached("SELECT coalesce(max(number), 0) FROM chunks")?
                .query_row([], |row| row.get(0))?,
        };
        self.up_to().insert(model.to_owned(), up_to);
        Ok(up_to)
    }

    fn up_to(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.up_to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All chunks of some documents without a vector of the model.
pub(super) fn unembedded_of(
    db: &Connection,
    who: &Principal,
    documents: &[DocumentId],
    model: &str,
) -> rusqlite::Result<Vec<UnembeddedChunk>> {
    let mut missing = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM documents CROSS JOIN chunks ON document = documents.number
         WHERE documents.tenant = ?3 AND documents.id = ?4 AND {WITHOUT} ORDER BY ordinal"
    ))?;
    let mut found = Vec::new();
    for id in documents {
        let rows = missing.query(params![0, model, who.tenant, id.0.as_bytes()])?;
        found.extend(from_rows(db, rows)?);
    }
    Ok(found)
}

/// The columns that `from_rows` reads.
const COLUMNS: &str = "document, chunks.tenant, chunks.id, first_byte, end_byte, context, title";

fn from_rows(db: &Connection, mut rows: Rows<'_>) -> rusqlite::Result<Vec<UnembeddedChunk>> {
    let (mut found, mut texts) = (Vec::new(), DocumentTexts::new(db));
    while let Some(row) = rows.next()? {
        let bytes = Range { start: row.get(3)?, end: row.get(4)? };
        let text = texts.slice(row.get(0)?, bytes)?;
        found.push(UnembeddedChunk {
            who: Principal { tenant: row.get(1)? },
            chunk: ChunkId(uuid(row, 2)?),
            text: text_to_embed(row.get_ref(6)?.as_str()?, row.get_ref(5)?.as_str()?, text),
        });
    }
    Ok(found)
}

/// The condition that a chunk after a number has no vector of a model.
const WITHOUT: &str = "chunks.number > ?1
    AND NOT EXISTS (SELECT 1 FROM vectors WHERE chunk = chunks.number AND model = ?2)";

/// The text to embed for a chunk: its document's title, its context and its own text.
fn text_to_embed(title: &str, context: &str, text: &str) -> String {
    let parts = [title, context, text].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::put_documents;
    use crate::catalog::query_plans::{document, empty_database};

    #[test]
    fn chunks_with_vectors_are_skipped() {
        let (db, progress) = (empty_database(), EmbeddingProgress::default());
        for (number, text) in (1..).zip(["one", "two", "three"]) {
            put_documents::put(&db, &Principal::local(), &[document(text)]).unwrap();
            let missing = progress.unembedded(&db, "model", 9).unwrap();
            assert_eq!(missing[0].text, format!("title\n{text}"));
            assert_eq!(progress.up_to()["model"], number - 1);
            put(&db, "model", &[(missing[0].clone(), vec![1.0, -0.5])]).unwrap();
            assert_eq!(progress.unembedded(&db, "model", 9).unwrap(), []);
            assert_eq!(progress.up_to()["model"], number);
        }
    }

    #[test]
    fn a_vector_is_stored_as_little_endian_floats() {
        assert_eq!(encode(&[1.0, -2.0]), [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
        assert_eq!(decode(&encode(&[0.1, f32::MIN, 3.5])), [0.1, f32::MIN, 3.5]);
    }
}
