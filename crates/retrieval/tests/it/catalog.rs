//! The real catalog in memory, filled with documents that are lists of paragraphs: each is a chunk and a
//! line.

use std::sync::Arc;

use domain::{
    Catalog, Chunk, ChunkKind, Document, DocumentId, DocumentLocation, Metadata, NewDocument, Principal,
    SourceKind, Timestamp,
};
use storage::SqliteCatalog;

use crate::fixtures::{MODEL, vector};

pub(crate) struct TestCatalog {
    knowledge: Arc<SqliteCatalog>,
}

impl TestCatalog {
    pub(crate) fn new() -> Self {
        Self { knowledge: Arc::new(SqliteCatalog::in_memory()) }
    }

    pub(crate) fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.knowledge) as Arc<dyn Catalog>
    }

    /// Stores a document with the vectors of its paragraphs.
    pub(crate) async fn put(&self, path: &str, paragraphs: &[&str]) -> DocumentId {
        let new = document(path, paragraphs);
        let id = new.document.id;
        self.knowledge.put(&Principal::local(), vec![new]).await.expect("the catalog stores a document");
        let unembedded = self.knowledge.unembedded(MODEL, 1000).await.expect("the catalog is read");
        let vectors = unembedded.into_iter().map(|chunk| {
            let vector = vector(&chunk.text);
            (chunk, vector)
        });
        self.knowledge.put_vectors(MODEL, vectors.collect()).await.expect("the catalog stores vectors");
        id
    }
}

/// A document whose digest is derived from its text.
fn document(path: &str, paragraphs: &[&str]) -> NewDocument {
    let location = DocumentLocation {
        collection: "default".to_owned(),
        repo_url: "https://example.org/it".to_owned(),
        file_path: path.to_owned(),
    };
    let id = location.document();
    let text: String = paragraphs.iter().map(|paragraph| format!("{paragraph}\n")).collect();
    let mut digest = [0; 32];
    digest[..16].copy_from_slice(Chunk::id(id, "", &text, 0).0.as_bytes());
    let mut start = 0;
    let chunks = (1..).zip(paragraphs).map(|(line, paragraph)| {
        let bytes = start..start + paragraph.len();
        start = bytes.end + 1;
        Chunk {
            id: Chunk::id(id, "", paragraph, 0),
            bytes,
            lines: (line, line),
            kind: Some(ChunkKind::ParagraphGroup),
            section: None,
            subsection: None,
            anchor: Some(format!("line-{line}")),
            context: String::new(),
        }
    });
    let chunks = chunks.collect();
    let document = Document {
        id,
        place: location,
        source: SourceKind::Api,
        title: path.to_owned(),
        language: None,
        url: Some(format!("/{path}")),
        module: None,
        tags: Vec::new(),
        metadata: Metadata::new(),
        text,
    };
    NewDocument { document, chunks, digest, at: Timestamp::from_micros(0) }
}
