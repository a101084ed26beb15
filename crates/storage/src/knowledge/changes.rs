//! What happened since a revision, read from the catalog as it is now. A document's chunks are told with the
//! document's own revision, all of them; a vector that came later is told with its revision, chunk and all.
//! So whoever applies every change from 0 has exactly what the catalog has.

use std::ops::Range;

use domain::{CatalogChanges, ChunkId, DocumentId, IndexedChunk, Principal};
use rusqlite::{Connection, Row, params};

use super::texts::Texts;
use super::{revision, vectors};
use crate::sqlite::uuid;

/// What happened after a revision. One that this catalog never had is answered with revision 0: whoever asked
/// has followed another catalog, and begins anew.
pub(super) fn since(
    db: &Connection,
    after: u64,
    model: &str,
    limit: usize,
) -> rusqlite::Result<CatalogChanges> {
    let known = revision::known(db)?;
    if after != 0 && !known.contains(&after) {
        return Ok(CatalogChanges { more: true, ..CatalogChanges::default() });
    }
    let latest = *known.end();
    let last = last_to_tell(db, after, model, limit)?.unwrap_or(latest);
    let mut changes = CatalogChanges { revision: last, more: last < latest, ..CatalogChanges::default() };
    let told = Told { db, model, after, last };
    if after != 0 {
        // Whoever begins has nothing that could be gone.
        changes.removed = told.removed()?;
        told.add_new_vectors(&mut changes.added)?;
    }
    told.add_documents(&mut changes.added)?;
    Ok(changes)
}

/// The revision with which there are `limit` chunks; none if there are fewer in all.
fn last_to_tell(db: &Connection, after: u64, model: &str, limit: usize) -> rusqlite::Result<Option<u64>> {
    // Whoever begins is told of documents only, with the vectors that they have already.
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

/// The revisions that are told at once.
struct Told<'a> {
    db: &'a Connection,
    model: &'a str,
    after: u64,
    last: u64,
}

impl Told<'_> {
    fn removed(&self) -> rusqlite::Result<Vec<(Principal, ChunkId)>> {
        self.db
            .prepare_cached("SELECT tenant, chunk FROM removed WHERE told > ? AND told <= ? ORDER BY told")?
            .query_map(params![self.after, self.last], |row| {
                Ok((Principal { tenant: row.get(0)? }, ChunkId(uuid(row, 1)?)))
            })?
            .collect()
    }

    /// All chunks of the documents that were filed in these revisions, with the vectors that they have now.
    fn add_documents(&self, added: &mut Vec<IndexedChunk>) -> rusqlite::Result<()> {
        let mut filed = self.db.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM documents
             CROSS JOIN chunks ON chunks.document = documents.number
             LEFT JOIN vectors ON vectors.chunk = chunks.number AND vectors.model = ?1
             WHERE documents.revision > ?2 AND documents.revision <= ?3
             ORDER BY documents.revision"
        ))?;
        let mut texts = Texts::new(self.db);
        let mut rows = filed.query(params![self.model, self.after, self.last])?;
        while let Some(row) = rows.next()? {
            added.push(indexed(row, &mut texts)?);
        }
        Ok(())
    }

    /// The chunks that got a vector in these revisions. Those of documents that were filed meanwhile are told
    /// with their documents.
    fn add_new_vectors(&self, added: &mut Vec<IndexedChunk>) -> rusqlite::Result<()> {
        let mut embedded = self.db.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM vectors
             CROSS JOIN chunks ON chunks.number = vectors.chunk
             CROSS JOIN documents ON documents.number = chunks.document
             WHERE vectors.model = ?1 AND vectors.revision > ?2 AND vectors.revision <= ?3
               AND documents.revision <= ?2
             ORDER BY vectors.revision"
        ))?;
        let mut texts = Texts::new(self.db);
        let mut rows = embedded.query(params![self.model, self.after, self.last])?;
        while let Some(row) = rows.next()? {
            added.push(indexed(row, &mut texts)?);
        }
        Ok(())
    }
}

/// The columns of a chunk as it is searched, as `indexed` reads them.
const COLUMNS: &str = "documents.number, documents.tenant, documents.id, title, file_path, language, chunks.id, \
    first_byte, end_byte, kind, context, vector";

fn indexed(row: &Row<'_>, texts: &mut Texts<'_>) -> rusqlite::Result<IndexedChunk> {
    let bytes = Range { start: row.get(7)?, end: row.get(8)? };
    let (language, kind) = (row.get_ref(5)?, row.get_ref(9)?);
    Ok(IndexedChunk {
        who: Principal { tenant: row.get(1)? },
        chunk: ChunkId(uuid(row, 6)?),
        document: DocumentId(uuid(row, 2)?),
        title: row.get(3)?,
        file_path: row.get(4)?,
        context: row.get(10)?,
        text: texts.piece(row.get(0)?, bytes)?.to_owned(),
        is_code: kind.as_str_or_null()?.is_none() && language.as_str_or_null()?.is_some(),
        vector: row.get_ref(11)?.as_blob_or_null()?.map(vectors::decode),
    })
}
