//! Filters: the documents that pass them, and the chunks where a filter distinguishes chunks of one document. A client's
//! values are always bound to a statement, never part of its text.

mod urls;

use std::collections::{BTreeSet, HashMap, HashSet};

use domain::{ChunkId, DocumentId, FilterField, FilterMatches, Filters, Passage, Principal, StorageError};
use globset::{GlobBuilder, GlobSet};
use rusqlite::{Connection, params, params_from_iter};

use crate::sqlite::uuid;
use urls::SourceUrls;

/// Filters as SQL conditions and globs.
pub(super) struct CompiledFilters {
    /// By column, the accepted values as a JSON list.
    columns: Vec<(&'static str, String)>,
    /// By name of a metadata entry, the accepted values as a JSON list.
    metadata: Vec<(String, String)>,
    paths: Option<GlobSet>,
    urls: Option<SourceUrls>,
    /// The accepted headings of a chunk, as a JSON list.
    headings: Option<String>,
}

/// A document that passes the filters of documents.
struct MatchingDocument {
    number: i64,
    id: DocumentId,
    /// Its source URL; empty if no filter needs it.
    url: String,
}

/// The source URL of a document, where a client opens it. It is indexed.
const SOURCE_URL: &str = "coalesce(url, repo_url || '/' || file_path)";

/// The innermost heading of a chunk, empty if there is none. It is indexed.
const HEADING: &str = "coalesce(subsection, section, '')";

impl CompiledFilters {
    pub(super) fn new(filters: &Filters) -> Result<Self, StorageError> {
        let mut compiled =
            Self { columns: Vec::new(), metadata: Vec::new(), paths: None, urls: None, headings: None };
        for (field, values) in filters {
            match field {
                FilterField::RepoUrl => compiled.columns.push(("repo_url", json_list(values))),
                FilterField::Language => compiled.columns.push(("language", json_list(values))),
                FilterField::Collection => compiled.columns.push(("collection", json_list(values))),
                FilterField::Title => compiled.columns.push(("title", json_list(values))),
                FilterField::SourceUrl => {
                    let urls = SourceUrls::new(values);
                    compiled.columns.push((SOURCE_URL, json_list(urls.of_documents())));
                    compiled.urls = Some(urls);
                }
                FilterField::SectionHeading => compiled.headings = Some(json_list(headings(values))),
                FilterField::Metadata(name) => compiled.metadata.push((name.clone(), json_list(values))),
                FilterField::FilePath => compiled.paths = Some(glob_set(values)?),
            }
        }
        Ok(compiled)
    }

    /// The documents that pass, and their chunks if any filter distinguishes chunks.
    pub(super) fn find(&self, db: &Connection, who: &Principal) -> rusqlite::Result<FilterMatches> {
        let matching = self.documents(db, who)?;
        let has_anchors = self.urls.as_ref().is_some_and(SourceUrls::has_anchors);
        if self.headings.is_none() && !has_anchors {
            return Ok(FilterMatches {
                documents: matching.into_iter().map(|document| document.id).collect(),
                chunks: None,
            });
        }
        let chunks = self.chunks(db, who, &matching)?;
        let with_chunks: HashSet<i64> = chunks.iter().map(|(document, _)| *document).collect();
        let documents = matching.iter().filter(|document| with_chunks.contains(&document.number));
        Ok(FilterMatches {
            documents: documents.map(|document| document.id).collect(),
            chunks: Some(chunks.into_iter().map(|(_, chunk)| chunk).collect()),
        })
    }

    fn documents(&self, db: &Connection, who: &Principal) -> rusqlite::Result<Vec<MatchingDocument>> {
        let numbers = self.with_metadata(db)?;
        let conditions: String = self.columns.iter().map(|(column, _)| is_in(column)).collect();
        // Without the URL, most filters are answered from an index alone.
        let url = self.urls.as_ref().map_or("''", |_| SOURCE_URL);
        let statement =
            format!("SELECT number, id, file_path, {url} FROM documents WHERE tenant = ?{conditions}");
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
            let id = DocumentId(uuid(row, 1)?);
            found.push(MatchingDocument { number: row.get(0)?, id, url: row.get(3)? });
        }
        Ok(found)
    }

    /// The chunks of matching documents that pass, each with its document's number.
    fn chunks(
        &self,
        db: &Connection,
        who: &Principal,
        matching: &[MatchingDocument],
    ) -> rusqlite::Result<Vec<(i64, ChunkId)>> {
        let documents: HashMap<i64, &MatchingDocument> =
            matching.iter().map(|document| (document.number, document)).collect();
        // A filter by heading uses the index of headings, else the chunks are found by document.
        let (tenant, column, values) = match &self.headings {
            Some(headings) => ("tenant", HEADING, headings.clone()),
            None => ("+tenant", "document", json_list(documents.keys())),
        };
        let mut statement = db.prepare_cached(&format!(
            "SELECT id, document, coalesce(anchor, '') FROM chunks WHERE {tenant} = ?{}",
            is_in(column)
        ))?;
        let mut rows = statement.query(params![who.tenant, values])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let Some(document) = documents.get(&row.get(1)?) else { continue };
            let anchor = row.get_ref(2)?.as_str()?;
            if self.urls.as_ref().is_none_or(|urls| urls.contains(&document.url, anchor)) {
                found.push((document.number, ChunkId(uuid(row, 0)?)));
            }
        }
        Ok(found)
    }

    /// The numbers of the documents, of every tenant, with the filtered metadata; none without a metadata filter.
    fn with_metadata(&self, db: &Connection) -> rusqlite::Result<Option<HashSet<i64>>> {
        let mut with_entry = db.prepare_cached(&format!(
            "SELECT document FROM metadata_values WHERE name = ?{}",
            is_in("value")
        ))?;
        let mut numbers: Option<HashSet<i64>> = None;
        for (name, values) in &self.metadata {
            let rows = with_entry.query_map(params![name, values], |row| row.get::<_, i64>(0))?;
            let matching = rows.collect::<Result<HashSet<_>, _>>()?;
            numbers = Some(numbers.map_or(matching.clone(), |numbers| &numbers & &matching));
        }
        Ok(numbers)
    }
}

/// The condition that a column has one of the values of a JSON list.
fn is_in(column: &str) -> String {
    format!(" AND {column} IN (SELECT value FROM json_each(?))")
}

fn json_list<T: serde::Serialize>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<T> = values.into_iter().collect();
    serde_json::to_string(&values).expect("texts and numbers are JSON")
}

/// The headings to accept. The label that clients see for a chunk without a heading selects those without one.
fn headings(values: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    let none = values.contains(Passage::NO_HEADING).then_some("");
    values.iter().map(String::as_str).filter(|value| !value.is_empty()).chain(none)
}

fn glob_set(globs: &BTreeSet<String>) -> Result<GlobSet, StorageError> {
    let mut set = GlobSet::builder();
    for glob in globs {
        let parsed = GlobBuilder::new(glob).literal_separator(true).build();
        set.add(parsed.map_err(|error| {
            StorageError::other(format!("a filter by path is not a valid glob: {error}"))
        })?);
    }
    set.build().map_err(|error| StorageError::other(format!("a filter by path is too large: {error}")))
}
