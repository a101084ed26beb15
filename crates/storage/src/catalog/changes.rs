//! The change feed: what happened after a revision, read from the tables as they are now.
//!
//! A document's chunks appear under the document's own revision, all of them. A vector that was added later appears
//! under its own revision, with its chunk. A follower that applies every change from revision 0 has exactly the
//! catalog's content.

use std::ops::Range;

use domain::{CatalogChanges, ChunkId, DocumentId, IndexedChunk, Principal};
use rusqlite::{Connection, Row, params};

use super::chunk_text::DocumentTexts;
use super::{revisions, vectors};
use crate::sqlite::uuid;

/// The changes after a revision, in whole revisions until there are `limit` chunks. For a revision that this catalog
/// never had, the answer is revision 0 and that there is more: the follower has followed another catalog and starts
/// over.
pub(super) fn since(
    db: &Connection,
    after: u64,
    model: &str,
    limit: usize,
) -> rusqlite::Result<CatalogChanges> {
    let known = revisions::known(db)?;
    if after != 0 && !known.contains(&after) {
        return Ok(CatalogChanges { more: true, ..CatalogChanges::default() });
    }
    let latest = *known.end();
    let last = last_within_limit(db, after, model, limit)?.unwrap_or(latest);
    let mut changes = CatalogChanges { revision: last, more: last < latest, ..CatalogChanges::default() };
    let window = RevisionWindow { db, model, after, last };
    if after != 0 {
        // A follower at revision 0 has no chunks that could be gone.
        changes.removed = window.removed()?;
        window.add_new_vectors(&mut changes.added)?;
    }
    window.add_documents(&mut changes.added)?;
    Ok(changes)
}

/// The revision at which `limit` chunks are reached; none if there are fewer.
fn last_within_limit(
    db: &Connection,
    after: u64,
    model: &str,
    limit: usize,
) -> rusqlite::Result<Option<u64>> {
    // From revision 0 on only documents count: their chunks come with the vectors that they have now.
    let mut revisions = db.prepare_cached(
        "SELECT revision, chunk_count FROM documents WHERE revision > ?1
         UNION ALL SELECT revision, 1 FROM vectors WHERE ?1 <> 0 AND model = ?2 AND revision > ?1
         UNION ALL SELECT told, 1 FROM removed WHERE ?1 <> 0 AND told > ?1
         ORDER BY 1",
    )?;
    let mut rows = revisions.query(params![after, model])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += row.get::<_, usize>(1)?;
        if count >= limit {
            return row.get(0).map(Some);
        }
    }
    Ok(None)
}

/// The revisions of one answer: after `after`, up to and with `last`.
struct RevisionWindow<'a> {
    db: &'a Connection,
    model: &'a str,
    after: u64,
    last: u64,
}

impl RevisionWindow<'_> {
    fn removed(&self) -> rusqlite::Result<Vec<(Principal, ChunkId)>> {
        self.db
            .prepare_cached("SELECT tenant, chunk FROM removed WHERE told > ? AND told <= ? ORDER BY told")?
            .query_map(params![self.after, self.last], |row| {
                Ok((Principal { tenant: row.get(0)? }, ChunkId(uuid(row, 1)?)))
            })?
            .collect()
    }

    /// Adds all chunks of the documents that were put in these revisions, with the vectors that they have now.
    fn add_documents(&self, added: &mut Vec<IndexedChunk>) -> rusqlite::Result<()> {
        self.add(
            added,
            "documents
             CROSS JOIN chunks ON chunks.document = documents.number
             LEFT JOIN vectors ON vectors.chunk = chunks.number AND vectors.model = ?1
             WHERE documents.revision > ?2 AND documents.revision <= ?3
             ORDER BY documents.revision",
        )
    }

    /// Adds the chunks that got a vector in these revisions, but for those of documents that were put in them:
    /// `add_documents` adds these.
    fn add_new_vectors(&self, added: &mut Vec<IndexedChunk>) -> rusqlite::Result<()> {
        self.add(
            added,
            "vectors
             CROSS JOIN chunks ON chunks.number = vectors.chunk
             CROSS JOIN documents ON documents.number = chunks.document
             WHERE vectors.model = ?1 AND vectors.revision > ?2 AND vectors.revision <= ?3
               AND documents.revision <= ?2
             ORDER BY vectors.revision",
        )
    }

    fn add(&self, added: &mut Vec<IndexedChunk>, from: &str) -> rusqlite::Result<()> {
        let mut chunks = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM {from}"))?;
        let mut texts = DocumentTexts::new(self.db);
        let mut rows = chunks.query(params![self.model, self.after, self.last])?;
        while let Some(row) = rows.next()? {
            added.push(indexed_chunk(row, &mut texts)?);
        }
        Ok(())
    }
}

/// The columns that `indexed_chunk` reads.
const COLUMNS: &str = "documents.number, documents.tenant, documents.id, title, file_path, language, chunks.id, \
    first_byte, end_byte, kind, context, vector";

fn indexed_chunk(row: &Row<'_>, texts: &mut DocumentTexts<'_>) -> rusqlite::Result<IndexedChunk> {
    let bytes = Range { start: row.get(7)?, end: row.get(8)? };
    let (language, kind) = (row.get_ref(5)?, row.get_ref(9)?);
    Ok(IndexedChunk {
        who: Principal { tenant: row.get(1)? },
        chunk: ChunkId(uuid(row, 6)?),
        document: DocumentId(uuid(row, 2)?),
        title: row.get(3)?,
        file_path: row.get(4)?,
        context: row.get(10)?,
        text: texts.slice(row.get(0)?, bytes)?.to_owned(),
        is_code: kind.as_str_or_null()?.is_none() && language.as_str_or_null()?.is_some(),
        vector: row.get_ref(11)?.as_blob_or_null()?.map(vectors::decode),
    })
}
