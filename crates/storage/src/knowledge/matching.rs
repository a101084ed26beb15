//! Filters: which documents pass them, and which chunks where a filter tells those apart. What a client sent is
//! only ever bound to a statement, never part of one.

use std::collections::{BTreeSet, HashMap, HashSet};

use domain::{ChunkId, DocumentId, FilterField, FilterMatches, Filters, Passage, Principal, StorageError};
use globset::{GlobBuilder, GlobSet};
use rusqlite::{Connection, params, params_from_iter};

use super::addresses::Addresses;
use crate::sqlite::uuid;

/// What a document must be like, and a chunk.
pub(super) struct Wanted {
    /// By column, the values it may have there, as a JSON list.
    columns: Vec<(&'static str, String)>,
    /// By name of a metadata entry, likewise.
    metadata: Vec<(String, String)>,
    paths: Option<GlobSet>,
    addresses: Option<Addresses>,
    /// The headings that a chunk may have, likewise.
    headings: Option<String>,
}

/// A document that passes.
struct Passing {
    number: i64,
    id: DocumentId,
    /// Where a reader opens it, if anybody wants to know.
    address: String,
}

/// Where a reader opens a document. An index has it.
const ADDRESS: &str = "coalesce(url, repo_url || '/' || file_path)";

/// The innermost heading of a chunk, empty if there is none. An index has it.
const HEADING: &str = "coalesce(subsection, section, '')";

impl Wanted {
    pub(super) fn new(filters: &Filters) -> Result<Self, StorageError> {
        let mut wanted =
            Self { columns: Vec::new(), metadata: Vec::new(), paths: None, addresses: None, headings: None };
        for (field, values) in filters {
            match field {
                FilterField::RepoUrl => wanted.columns.push(("repo_url", list(values))),
                FilterField::Language => wanted.columns.push(("language", list(values))),
                FilterField::Collection => wanted.columns.push(("collection", list(values))),
                FilterField::Title => wanted.columns.push(("title", list(values))),
                FilterField::SourceUrl => {
                    let addresses = Addresses::new(values);
                    wanted.columns.push((ADDRESS, list(addresses.of_documents())));
                    wanted.addresses = Some(addresses);
                }
                FilterField::SectionHeading => wanted.headings = Some(list(headings(values))),
                FilterField::Metadata(name) => wanted.metadata.push((name.clone(), list(values))),
                FilterField::FilePath => wanted.paths = Some(any_of(values)?),
            }
        }
        Ok(wanted)
    }

    /// What is so.
    pub(super) fn find(&self, db: &Connection, who: &Principal) -> rusqlite::Result<FilterMatches> {
        let passing = self.documents(db, who)?;
        let names_chunks = self.addresses.as_ref().is_some_and(Addresses::name_chunks);
        if self.headings.is_none() && !names_chunks {
            return Ok(FilterMatches {
                documents: passing.into_iter().map(|passing| passing.id).collect(),
                chunks: None,
            });
        }
        let chunks = self.chunks(db, who, &passing)?;
        let having: HashSet<i64> = chunks.iter().map(|(document, _)| *document).collect();
        let documents = passing.iter().filter(|passing| having.contains(&passing.number));
        Ok(FilterMatches {
            documents: documents.map(|passing| passing.id).collect(),
            chunks: Some(chunks.into_iter().map(|(_, chunk)| chunk).collect()),
        })
    }

    fn documents(&self, db: &Connection, who: &Principal) -> rusqlite::Result<Vec<Passing>> {
        let numbers = self.with_metadata(db)?;
        let conditions: String = self.columns.iter().map(|(column, _)| among(column)).collect();
        // Most filters are answered by an index that has no addresses in it.
        let address = self.addresses.as_ref().map_or("''", |_| ADDRESS);
        let statement =
            format!("SELECT number, id, file_path, {address} FROM documents WHERE tenant = ?{conditions}");
        let mut statement = db.prepare_cached(&statement)?;
        let values = self.columns.iter().map(|(_, values)| values);
        let mut rows = statement.query(params_from_iter([&who.tenant].into_iter().chain(values)))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            if let Some(numbers) = &numbers
                && !numbers.contains(&row.get(0)?)
            {
                continue;
            }
            if let Some(paths) = &self.paths
                && !paths.is_match(row.get_ref(2)?.as_str()?)
            {
                continue;
            }
            found.push(Passing { number: row.get(0)?, id: DocumentId(uuid(row, 1)?), address: row.get(3)? });
        }
        Ok(found)
    }

    /// The chunks of documents that pass, each with its document's number.
    fn chunks(
        &self,
        db: &Connection,
        who: &Principal,
        passing: &[Passing],
    ) -> rusqlite::Result<Vec<(i64, ChunkId)>> {
        let documents: HashMap<i64, &Passing> =
            passing.iter().map(|passing| (passing.number, passing)).collect();
        // Looked up by their headings if those are asked for, else by their documents.
        let (tenant, column, values) = match &self.headings {
            Some(headings) => ("tenant", HEADING, headings.clone()),
            None => ("+tenant", "document", list(documents.keys())),
        };
        let mut statement = db.prepare_cached(&format!(
            "SELECT id, document, coalesce(anchor, '') FROM chunks WHERE {tenant} = ?{}",
            among(column)
        ))?;
        let mut rows = statement.query(params![who.tenant, values])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let Some(document) = documents.get(&row.get(1)?) else { continue };
            let anchor = row.get_ref(2)?.as_str()?;
            if self.addresses.as_ref().is_none_or(|addresses| addresses.name(&document.address, anchor)) {
                found.push((document.number, ChunkId(uuid(row, 0)?)));
            }
        }
        Ok(found)
    }

    /// The numbers of the documents, of every tenant, that have all the metadata; none if none is wanted.
    fn with_metadata(&self, db: &Connection) -> rusqlite::Result<Option<HashSet<i64>>> {
        let mut having = db.prepare_cached(&format!(
            "SELECT document FROM metadata_values WHERE name = ?{}",
            among("value")
        ))?;
        let mut numbers: Option<HashSet<i64>> = None;
        for (name, values) in &self.metadata {
            let rows = having.query_map(params![name, values], |row| row.get::<_, i64>(0))?;
            let those = rows.collect::<Result<HashSet<_>, _>>()?;
            numbers = Some(numbers.map_or(those.clone(), |numbers| &numbers & &those));
        }
        Ok(numbers)
    }
}

/// The condition that a column has one of the values of a JSON list.
fn among(column: &str) -> String {
    format!(" AND {column} IN (SELECT value FROM json_each(?))")
}

fn list<T: serde::Serialize>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<T> = values.into_iter().collect();
    serde_json::to_string(&values).expect("texts and numbers are JSON")
}

/// A chunk that has no heading goes by what is shown in its place.
fn headings(values: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    let none = values.contains(Passage::NO_HEADING).then_some("");
    values.iter().map(String::as_str).filter(|value| !value.is_empty()).chain(none)
}

fn any_of(globs: &BTreeSet<String>) -> Result<GlobSet, StorageError> {
    let mut set = GlobSet::builder();
    for glob in globs {
        let parsed = GlobBuilder::new(glob).literal_separator(true).build();
        set.add(
            parsed.map_err(|error| StorageError::other(format!("a filter by path is no glob: {error}")))?,
        );
    }
    set.build().map_err(|error| StorageError::other(format!("a filter by path is too large: {error}")))
}
