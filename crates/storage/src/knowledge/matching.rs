//! Filters: which documents pass them. What a client sent is only ever bound to a statement, never part of one.

use std::collections::{BTreeSet, HashSet};

use domain::{DocumentId, FilterField, Filters, Principal, StorageError};
use globset::{GlobBuilder, GlobSet};
use rusqlite::{Connection, params, params_from_iter};

use crate::sqlite::uuid;

/// What a document must be like.
pub(super) struct Wanted {
    /// By column, the values it may have there, as a JSON list.
    columns: Vec<(&'static str, String)>,
    /// By name of a metadata entry, likewise.
    metadata: Vec<(String, String)>,
    paths: Option<GlobSet>,
}

impl Wanted {
    pub(super) fn new(filters: &Filters) -> Result<Self, StorageError> {
        let mut wanted = Self { columns: Vec::new(), metadata: Vec::new(), paths: None };
        for (field, values) in filters {
            let list = serde_json::to_string(values).expect("texts are JSON");
            match field {
                FilterField::RepoUrl => wanted.columns.push(("repo_url", list)),
                FilterField::Language => wanted.columns.push(("language", list)),
                FilterField::Collection => wanted.columns.push(("collection", list)),
                FilterField::Title => wanted.columns.push(("title", list)),
                FilterField::SourceUrl | FilterField::SectionHeading => todo!(),
                FilterField::Metadata(name) => wanted.metadata.push((name.clone(), list)),
                FilterField::FilePath => wanted.paths = Some(any_of(values)?),
            }
        }
        Ok(wanted)
    }

    /// The documents that are so.
    pub(super) fn find(&self, db: &Connection, who: &Principal) -> rusqlite::Result<Vec<DocumentId>> {
        let numbers = self.with_metadata(db)?;
        let conditions: String = self.columns.iter().map(|(column, _)| among(column)).collect();
        let statement = format!("SELECT number, id, file_path FROM documents WHERE tenant = ?{conditions}");
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
            found.push(DocumentId(uuid(row, 1)?));
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

fn any_of(globs: &BTreeSet<String>) -> Result<GlobSet, StorageError> {
    let mut set = GlobSet::builder();
    for glob in globs {
        let parsed = GlobBuilder::new(glob).literal_separator(true).build();
        set.add(parsed.map_err(|error| StorageError(format!("a filter by path is no glob: {error}")))?);
    }
    set.build().map_err(|error| StorageError(format!("a filter by path is too large: {error}")))
}
