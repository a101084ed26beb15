//! What the tests of the catalog are written with: documents that are lists of paragraphs, each a chunk.

use std::path::Path;

use domain::{
    Catalog, Chunk, ChunkId, ChunkKind, Document, DocumentLocation, NewDocument, PutOutcome, SourceKind,
    UnembeddedChunk,
};
use rusqlite::Connection;
use storage::{Durability, Knowledge};
use uuid::Uuid;

use crate::world::{at, who};

/// The model that embeds.
pub(crate) const MODEL: &str = "granite";

pub(crate) fn open(folder: &Path) -> Knowledge {
    Knowledge::open(folder, Durability::Process).expect("a sound folder opens")
}

pub(crate) fn place(path: &str) -> DocumentLocation {
    DocumentLocation {
        collection: "default".into(),
        repo_url: "https://example.org/it".into(),
        file_path: path.into(),
    }
}

/// A document at a place, one chunk a paragraph, filed so many seconds after the tests began.
pub(crate) fn document_at(place: DocumentLocation, paragraphs: &[&str], seconds: u64) -> NewDocument {
    let text = paragraphs.iter().map(|paragraph| format!("{paragraph}\n")).collect::<String>();
    let document = Document {
        id: place.document(),
        title: format!("About {}", place.file_path),
        place,
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
    document_at(place(path), paragraphs, 0)
}

/// The same with the digest of what it is now.
pub(crate) fn digested(mut new: NewDocument) -> NewDocument {
    new.digest = [0; 32];
    let described = format!("{:?} {:?}", new.document, new.chunks);
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, described.as_bytes());
    new.digest[..16].copy_from_slice(digest.as_bytes());
    new
}

/// Files one document.
pub(crate) async fn put(knowledge: &Knowledge, new: &NewDocument) -> PutOutcome {
    let filings = knowledge.put(&who(), vec![new.clone()]).await.expect("a sound catalog takes a document");
    assert_eq!(filings.len(), 1);
    filings[0]
}

/// A vector that tells what it was made of.
pub(crate) fn vector_of(chunk: ChunkId) -> Vec<f32> {
    chunk.0.as_bytes()[..4].iter().map(|byte| f32::from(*byte) / 256.0).collect()
}

/// Gives some chunks that lack a vector one, and tells which.
pub(crate) async fn embed(knowledge: &Knowledge, limit: usize) -> Vec<UnembeddedChunk> {
    let missing = knowledge.unembedded(MODEL, limit).await.expect("a sound catalog reads");
    let vectors = missing.iter().map(|missing| (missing.clone(), vector_of(missing.chunk))).collect();
    knowledge.put_vectors(MODEL, vectors).await.expect("a sound catalog takes vectors");
    missing
}

/// The latest revision.
pub(crate) async fn revision(knowledge: &Knowledge) -> u64 {
    let changes = knowledge.changes_since(0, MODEL, usize::MAX).await.expect("a sound catalog reads");
    assert!(!changes.more);
    changes.revision
}

pub(crate) fn check_integrity(folder: &Path) {
    let database = Connection::open(folder.join("knowledge.db")).unwrap();
    let found: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
    let broken = database.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!broken, "a row refers to one that is gone");
}
