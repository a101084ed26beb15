//! Putting documents. A document that exists is replaced: chunks that it still has keep their rows and vectors, and all
//! of its chunks get the new revision, so that a follower sees the document wholly old or wholly new.

use std::collections::HashSet;

use domain::{Chunk, NewDocument, Principal, PutOutcome, StorageError};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::chunks::kind_name;
use super::documents::source_name;
use super::revisions::{self, Changed};
use super::tombstones;

/// Refuses a document whose chunks are outside its text or share an id.
pub(super) fn validate(new: &NewDocument) -> Result<(), StorageError> {
    let mut ids = HashSet::new();
    for Chunk { id, bytes, .. } in &new.chunks {
        let path = &new.document.place.file_path;
        if new.document.text.get(bytes.clone()).is_none() {
            return Err(StorageError::other(format!(
                "{path}: chunk {id} ({bytes:?}) is not a range of its text"
            )));
        }
        if !ids.insert(id) {
            return Err(StorageError::other(format!("{path}: two of its chunks have the id {id}")));
        }
    }
    Ok(())
}

/// Puts documents, in one revision if any of them is new or different.
pub(super) fn put(
    db: &Connection,
    who: &Principal,
    documents: &[NewDocument],
) -> rusqlite::Result<Vec<PutOutcome>> {
    revisions::with_next(db, |revision| {
        let put_one = |new| put_one(db, who, new, revision);
        let outcomes = documents.iter().map(put_one).collect::<Result<Vec<_>, _>>()?;
        let something = outcomes.iter().any(|outcome| *outcome != PutOutcome::Unchanged);
        Ok(Changed { something, outcome: outcomes })
    })
}

fn put_one(
    db: &Connection,
    who: &Principal,
    new: &NewDocument,
    revision: u64,
) -> rusqlite::Result<PutOutcome> {
    let id = new.document.id;
    let before = db
        .prepare_cached("SELECT digest FROM documents WHERE tenant = ? AND id = ?")?
        .query_row(params![who.tenant, id.0.as_bytes()], |row| row.get::<_, Vec<u8>>(0))
        .optional()?;
    let outcome = match before {
        Some(digest) if digest == new.digest => return Ok(PutOutcome::Unchanged),
        Some(_) => PutOutcome::Replaced,
        None => PutOutcome::Added,
    };
    tombstones::postpone(db, who, id, revision)?;
    let number = put_row(db, who, new, revision)?;
    put_text(db, number, &new.document.text)?;
    put_metadata(db, number, new)?;
    put_chunks(db, who, number, new, revision)?;
    Ok(outcome)
}

/// Writes a document's own row, and returns its number.
fn put_row(db: &Connection, who: &Principal, new: &NewDocument, revision: u64) -> rusqlite::Result<i64> {
    let NewDocument { document, chunks, digest, at } = new;
    db.prepare_cached(
        "INSERT INTO documents (tenant, id, collection, repo_url, file_path, source, title, language, url, module,
                                tags, metadata, digest, chunk_count, created_at, updated_at, revision)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, ?16)
         ON CONFLICT (tenant, id) DO UPDATE SET
             source = ?6, title = ?7, language = ?8, url = ?9, module = ?10, tags = ?11, metadata = ?12,
             digest = ?13, chunk_count = ?14, updated_at = ?15, revision = ?16
         RETURNING number",
    )?
    .query_row(
        params![
            who.tenant,
            document.id.0.as_bytes(),
            document.place.collection,
            document.place.repo_url,
            document.place.file_path,
            source_name(document.source),
            document.title,
            document.language,
            document.url,
            document.module,
            serde_json::to_string(&document.tags).expect("texts are JSON"),
            serde_json::to_string(&document.metadata).expect("texts are JSON"),
            digest,
            chunks.len(),
            at.micros(),
            revision
        ],
        |row| row.get(0),
    )
}

fn put_text(db: &Connection, document: i64, text: &str) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO texts (document, body) VALUES (?, ?)")?
        .execute(params![document, text])?;
    Ok(())
}

fn put_metadata(db: &Connection, number: i64, new: &NewDocument) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM metadata_values WHERE document = ?")?.execute([number])?;
    let mut insert =
        db.prepare_cached("INSERT INTO metadata_values (document, name, value) VALUES (?, ?, ?)")?;
    for (name, value) in &new.document.metadata {
        insert.execute(params![number, name, comparable(value)])?;
    }
    Ok(())
}

/// A metadata value as filters compare it: the content of a string, the JSON text of anything else.
fn comparable(value: &str) -> String {
    match serde_json::from_str(value) {
        Ok(Value::String(content)) => content,
        _ => value.to_owned(),
    }
}

/// Replaces a document's chunks. Those that it still has keep their rows.
fn put_chunks(
    db: &Connection,
    who: &Principal,
    document: i64,
    new: &NewDocument,
    revision: u64,
) -> rusqlite::Result<()> {
    let mut before: HashSet<[u8; 16]> = db
        .prepare_cached("SELECT id FROM chunks WHERE document = ?")?
        .query_map([document], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for (ordinal, chunk) in new.chunks.iter().enumerate() {
        if !before.remove(chunk.id.0.as_bytes()) {
            tombstones::delete(db, who, chunk.id)?;
        }
        put_chunk(db, who, document, ordinal, chunk)?;
    }
    for id in before {
        db.prepare_cached("DELETE FROM chunks WHERE tenant = ? AND id = ?")?
            .execute(params![who.tenant, id])?;
        tombstones::add(db, who, new.document.id, id, revision)?;
    }
    Ok(())
}

fn put_chunk(
    db: &Connection,
    who: &Principal,
    document: i64,
    ordinal: usize,
    chunk: &Chunk,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO chunks (document, tenant, id, ordinal, first_byte, end_byte, first_line, last_line, kind,
                             section, subsection, anchor, context)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (tenant, id) DO UPDATE SET
             ordinal = ?4, first_byte = ?5, end_byte = ?6, first_line = ?7, last_line = ?8, kind = ?9,
             section = ?10, subsection = ?11, anchor = ?12, context = ?13",
    )?
    .execute(params![
        document,
        who.tenant,
        chunk.id.0.as_bytes(),
        ordinal,
        chunk.bytes.start,
        chunk.bytes.end,
        chunk.lines.0,
        chunk.lines.1,
        chunk.kind.map(kind_name),
        chunk.section,
        chunk.subsection,
        chunk.anchor,
        chunk.context
    ])?;
    Ok(())
}
