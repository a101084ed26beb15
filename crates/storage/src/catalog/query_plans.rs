//! Tests of query plans: no statement of the catalog scans a table that grows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use domain::{
    Chunk, Document, DocumentId, DocumentLocation, FilterField, Filters, NewDocument, Principal, SourceKind,
    Timestamp,
};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::types::Null;
use rusqlite::{Connection, params_from_iter};

use super::{
    CATALOG_SCHEMA, CompiledFilters, EmbeddingProgress, changes, chunks, documents, put_documents,
    remove_documents, vectors,
};

/// Statements that may read all documents of a tenant: lists and counts, and paths to compare with globs.
const TENANT_SCANS: [&str; 4] = [
    "SELECT count(*) FROM documents INDEXED BY documents_in_order",
    "FROM documents INDEXED BY documents_in_order WHERE tenant = ?1 AND ?2 IS NULL ORDER BY number DESC LIMIT",
    "SELECT collection, count(*) FROM documents WHERE tenant = ? GROUP BY collection",
    "SELECT number, id, file_path, '' FROM documents WHERE tenant = ?",
];

#[test]
fn no_statement_scans_a_table_or_sorts() {
    let mut db = empty_database();
    let statements = recorded_statements(&mut db);
    assert!(statements.len() > 30, "{statements:#?}");
    for statement in statements {
        for step in plan(&db, &statement) {
            // `revisions` has one row; `json_each` reads the values of a filter.
            let is_small = step == "SCAN revisions" || step.starts_with("SCAN json_each");
            assert!(is_small || !step.starts_with("SCAN"), "{step}: {statement}");
            assert!(!step.contains("AUTOMATIC") && !step.contains("TEMP B-TREE"), "{step}: {statement}");
            let may_scan =
                TENANT_SCANS.iter().any(|scan| statement.contains(scan)) && !statement.contains(" IN ");
            assert!(may_scan || !step.ends_with("(tenant=?)"), "{step}: {statement}");
        }
    }
}

#[test]
fn a_removed_row_finds_its_dependents_by_index() {
    let db = empty_database();
    for table in ["documents", "chunks"] {
        let steps = plan(&db, &format!("DELETE FROM {table} WHERE number = 1"));
        assert!(steps.len() > 1 && steps.iter().all(|step| step.starts_with("SEARCH")), "{steps:?}");
    }
}

/// A database with the catalog's tables and nothing in them.
pub(super) fn empty_database() -> Connection {
    let db = Connection::open_in_memory().unwrap();
    CATALOG_SCHEMA.migrations.iter().for_each(|migration| db.execute_batch(migration).unwrap());
    db.pragma_update(None, "foreign_keys", true).unwrap();
    db
}

fn plan(db: &Connection, statement: &str) -> Vec<String> {
    let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let unknown = vec![Null; plan.parameter_count()];
    let steps = plan.query_map(params_from_iter(unknown), |row| row.get("detail")).unwrap();
    steps.collect::<Result<_, _>>().unwrap()
}

/// Calls every operation of the catalog, and records the statements.
fn recorded_statements(db: &mut Connection) -> BTreeSet<String> {
    let recorded: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let recorder = recorded.clone();
    let record = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(statement, _) = event {
            recorder.lock().unwrap().insert(statement.sql().into_owned());
        }
    };
    db.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(record)).unwrap();
    let (who, id) = (Principal::local(), document("").document.id);
    for text in ["one", "two", "one"] {
        put_documents::put(db, &who, &[document(text)]).unwrap();
        let missing = EmbeddingProgress::default().unembedded(db, "model", 9).unwrap();
        let missing: Vec<_> = missing.into_iter().map(|missing| (missing, vec![1.0])).collect();
        vectors::put(db, "model", &missing).unwrap();
    }
    documents::find(db, &who, id).unwrap().unwrap();
    documents::page(db, &who, None, 0, 9).unwrap();
    documents::page(db, &who, Some("root"), 0, 9).unwrap();
    documents::collections(db, &who).unwrap();
    documents::known_files(db, &who, "collection", "root").unwrap();
    chunks::find(db, &who, &[document("one").chunks[0].id]).unwrap();
    for filters in filters() {
        CompiledFilters::new(&filters).unwrap().find(db, &who).unwrap();
    }
    let latest = changes::since(db, 0, "model", 9).unwrap().revision;
    changes::since(db, latest - 1, "model", 9).unwrap();
    remove_documents::remove(db, &who, &[id]).unwrap();
    db.trace_v2(TraceEventCodes::empty(), None::<fn(TraceEvent<'_>)>).unwrap();
    std::mem::take(&mut *recorded.lock().unwrap())
}

/// Each filter alone, none, and all together.
fn filters() -> Vec<Filters> {
    use FilterField::{Collection, FilePath, Language, Metadata, RepoUrl, SectionHeading, SourceUrl, Title};
    let metadata = Metadata("name".to_owned());
    let fields = [RepoUrl, FilePath, Language, Collection, Title, SourceUrl, SectionHeading, metadata];
    let filter = |field: &FilterField| (field.clone(), BTreeSet::from(["value#anchor".to_owned()]));
    let alone = fields.iter().map(|field| Filters::from([filter(field)]));
    alone.chain([Filters::new(), fields.iter().map(filter).collect()]).collect()
}

/// A document at a fixed location, with this text.
pub(super) fn document(text: &str) -> NewDocument {
    let place = DocumentLocation {
        collection: "collection".into(),
        repo_url: "root".into(),
        file_path: "path".into(),
    };
    let id: DocumentId = place.document();
    let chunk = Chunk {
        id: Chunk::id(id, "", text, 0),
        bytes: 0..text.len(),
        lines: (1, 1),
        kind: None,
        section: None,
        subsection: None,
        anchor: None,
        context: String::new(),
    };
    let document = Document {
        id,
        place,
        source: SourceKind::Api,
        title: "title".to_owned(),
        language: None,
        url: None,
        module: None,
        tags: Vec::new(),
        metadata: [("name".to_owned(), "5".to_owned())].into(),
        text: text.to_owned(),
    };
    let mut digest = [0; 32];
    digest[..text.len()].copy_from_slice(text.as_bytes());
    NewDocument { document, chunks: vec![chunk], digest, at: Timestamp::from_micros(1) }
}
