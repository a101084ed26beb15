//! Documents for the tests of the catalog: lists of paragraphs, each of them a chunk.

use std::path::Path;

use domain::{
    Catalog, Chunk, ChunkId, ChunkKind, Document, DocumentLocation, NewDocument, PutOutcome, SourceKind,
    UnembeddedChunk,
};
use rusqlite::Connection;
use storage::{Durability, SqliteCatalog};
use uuid::Uuid;

use crate::harness::{at, who};

/// The embedding model.
pub(crate) const MODEL: &str = "granite";

pub(crate) fn open(folder: &Path) -> SqliteCatalog {
    SqliteCatalog::open(folder, Durability::Process).expect("the folder opens")
}

pub(crate) fn location_of(path: &str) -> DocumentLocation {
    DocumentLocation {
        collection: "default".into(),
        repo_url: "https://example.org/it".into(),
        file_path: path.into(),
    }
}

/// A document at a location, with a chunk per paragraph, put this many seconds after the tests began.
pub(crate) fn document_at(location: DocumentLocation, paragraphs: &[&str], seconds: u64) -> NewDocument {
    let text = paragraphs.iter().map(|paragraph| format!("{paragraph}\n")).collect::<String>();
    let document = Document {
        id: location.document(),
        title: format!("About {}", location.file_path),
        place: location,
        source: SourceKind::Folder,
        language: None,
        url: None,
        module: None,
        tags: Vec::new(),
        metadata: Default::default(),
        text,
    };
    let mut new = NewDocument { document, chunks: Vec::new(), digest: [0; 32], at: at(seconds) };
    for (number, paragraph) in paragraphs.iter().enumerate() {
        let earlier = paragraphs[..number].iter().filter(|earlier| *earlier == paragraph).count();
        let start = new.chunks.last().map_or(0, |last| last.bytes.end + 1);
        let line = u32::try_from(number).expect("few paragraphs") + 1;
        new.chunks.push(Chunk {
            id: Chunk::id(new.document.id, "", paragraph, earlier),
            bytes: start..start + paragraph.len(),
            lines: (line, line),
            kind: Some(ChunkKind::ParagraphGroup),
            section: None,
            subsection: None,
            anchor: None,
            context: String::new(),
        });
    }
    digested(new)
}

pub(crate) fn document(path: &str, paragraphs: &[&str]) -> NewDocument {
    document_at(location_of(path), paragraphs, 0)
}

/// Sets the digest of a document from its content.
pub(crate) fn digested(mut new: NewDocument) -> NewDocument {
    new.digest = [0; 32];
    let described = format!("{:?} {:?}", new.document, new.chunks);
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, described.as_bytes());
    new.digest[..16].copy_from_slice(digest.as_bytes());
    new
}

/// Puts one document.
pub(crate) async fn put(catalog: &SqliteCatalog, new: &NewDocument) -> PutOutcome {
    let outcomes = catalog.put(&who(), vec![new.clone()]).await.expect("the catalog takes the document");
    assert_eq!(outcomes.len(), 1);
    outcomes[0]
}

/// A vector that is derived from the chunk's id.
pub(crate) fn vector_of(chunk: ChunkId) -> Vec<f32> {
    chunk.0.as_bytes()[..4].iter().map(|byte| f32::from(*byte) / 256.0).collect()
}

/// Stores vectors for chunks without one, at most `limit`, and returns the chunks.
pub(crate) async fn embed(catalog: &SqliteCatalog, limit: usize) -> Vec<UnembeddedChunk> {
    let missing = catalog.unembedded(MODEL, limit).await.expect("the catalog can be read");
    let vectors = missing.iter().map(|missing| (missing.clone(), vector_of(missing.chunk))).collect();
    catalog.put_vectors(MODEL, vectors).await.expect("the catalog takes vectors");
    missing
}

/// The latest revision.
pub(crate) async fn revision(catalog: &SqliteCatalog) -> u64 {
    let changes = catalog.changes_since(0, MODEL, usize::MAX).await.expect("the catalog can be read");
    assert!(!changes.more);
    changes.revision
}

pub(crate) fn check_integrity(folder: &Path) {
    let database = Connection::open(folder.join("knowledge.db")).unwrap();
    let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let broken = database.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!broken, "a foreign key is violated");
}
