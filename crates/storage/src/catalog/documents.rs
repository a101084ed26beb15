//! Reading documents: one with its text, or a page without texts.

use domain::{
    Document, DocumentId, DocumentLocation, KnownFile, Principal, SourceKind, StoredDocument, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sqlite::uuid;

/// The columns that `from_row` reads.
pub(super) const COLUMNS: &str = "documents.number, documents.id, collection, repo_url, file_path, source, title, \
    language, url, module, tags, metadata, chunk_count, created_at, updated_at";

/// How many columns `from_row` reads.
pub(super) const COLUMN_COUNT: usize = 15;

/// Reads a document without its text.
pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<StoredDocument> {
    let (source, tags, metadata): (String, String, String) = (row.get(5)?, row.get(10)?, row.get(11)?);
    let document = Document {
        id: DocumentId(uuid(row, 1)?),
        place: DocumentLocation { collection: row.get(2)?, repo_url: row.get(3)?, file_path: row.get(4)? },
        source: source_named(&source),
        title: row.get(6)?,
        language: row.get(7)?,
        url: row.get(8)?,
        module: row.get(9)?,
        tags: serde_json::from_str(&tags).unwrap_or_default(),
        metadata: serde_json::from_str(&metadata).unwrap_or_default(),
        text: String::new(),
    };
    Ok(StoredDocument {
        document,
        created_at: Timestamp::from_micros(row.get(13)?),
        updated_at: Timestamp::from_micros(row.get(14)?),
        chunk_count: row.get(12)?,
    })
}

/// Finds a document, with its text.
pub(super) fn find(
    db: &Connection,
    who: &Principal,
    id: DocumentId,
) -> rusqlite::Result<Option<StoredDocument>> {
    db.prepare_cached(&format!(
        "SELECT {COLUMNS}, body FROM documents JOIN texts ON texts.document = documents.number
         WHERE tenant = ? AND id = ?"
    ))?
    .query_row(params![who.tenant, id.0.as_bytes()], |row| {
        let mut stored = from_row(row)?;
        stored.document.text = row.get(COLUMN_COUNT)?;
        Ok(stored)
    })
    .optional()
}

/// A page of documents without their texts, the newest first, and the number of all.
pub(super) fn page(
    db: &Connection,
    who: &Principal,
    repo_url: Option<&str>,
    skip: u64,
    limit: usize,
) -> rusqlite::Result<(Vec<StoredDocument>, u64)> {
    let (index, in_root) = match repo_url {
        Some(_) => ("documents_of_root", "repo_url = ?2"),
        None => ("documents_in_order", "?2 IS NULL"),
    };
    // Both indexes yield the documents in the order of their numbers.
    let from = format!("FROM documents INDEXED BY {index} WHERE tenant = ?1 AND {in_root}");
    let count = db
        .prepare_cached(&format!("SELECT count(*) {from}"))?
        .query_row(params![who.tenant, repo_url], |row| row.get(0))?;
    let (skip, limit) = (i64::try_from(skip).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
    let page = db
        .prepare_cached(&format!("SELECT {COLUMNS} {from} ORDER BY number DESC LIMIT ?4 OFFSET ?3"))?
        .query_map(params![who.tenant, repo_url, skip, limit], from_row)?
        .collect::<Result<_, _>>()?;
    Ok((page, count))
}

/// The collections by name, with their numbers of documents.
pub(super) fn collections(db: &Connection, who: &Principal) -> rusqlite::Result<Vec<(String, u64)>> {
    db.prepare_cached(
        "SELECT collection, count(*) FROM documents WHERE tenant = ? GROUP BY collection ORDER BY collection",
    )?
    .query_map([&who.tenant], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

/// The documents of a root, by path.
pub(super) fn known_files(
    db: &Connection,
    who: &Principal,
    collection: &str,
    repo_url: &str,
) -> rusqlite::Result<Vec<KnownFile>> {
    db.prepare_cached(
        "SELECT file_path, id, digest FROM documents WHERE tenant = ? AND collection = ? AND repo_url = ?
         ORDER BY file_path",
    )?
    .query_map(params![who.tenant, collection, repo_url], |row| {
        Ok(KnownFile { file_path: row.get(0)?, document: DocumentId(uuid(row, 1)?), digest: row.get(2)? })
    })?
    .collect()
}

pub(super) fn source_name(source: SourceKind) -> &'static str {
    match source {
        SourceKind::Api => "api",
        SourceKind::Folder => "folder",
        SourceKind::Git => "git",
        SourceKind::Web => "web",
    }
}

fn source_named(name: &str) -> SourceKind {
    match name {
        "folder" => SourceKind::Folder,
        "git" => SourceKind::Git,
        "web" => SourceKind::Web,
        _ => SourceKind::Api,
    }
}
