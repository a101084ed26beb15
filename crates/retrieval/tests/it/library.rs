//! The real catalog, with documents that are lists of paragraphs, each a chunk on a line of its own.

use std::sync::Arc;

use domain::{
    Catalog, Chunk, ChunkKind, Document, DocumentId, DocumentLocation, Metadata, NewDocument, Principal,
    SourceKind, Timestamp,
};
use storage::Knowledge;

use crate::world::{MODEL, vector};

pub(crate) struct Library {
    knowledge: Arc<Knowledge>,
}

impl Library {
    pub(crate) fn new(knowledge: Knowledge) -> Self {
        Self { knowledge: Arc::new(knowledge) }
    }

    pub(crate) fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    pub(crate) fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.knowledge) as Arc<dyn Catalog>
    }

    /// Files a document with the vectors of its paragraphs' words.
    pub(crate) async fn put(&self, path: &str, paragraphs: &[&str]) -> DocumentId {
        let new = document(path, paragraphs);
        let id = new.document.id;
        self.knowledge.put(&Principal::local(), vec![new]).await.expect("a sound catalog takes a document");
        let missing = self.knowledge.unembedded(MODEL, 1000).await.expect("a sound catalog reads");
        let vectors = missing.into_iter().map(|missing| {
            let vector = vector(&missing.text);
            (missing, vector)
        });
        self.knowledge.put_vectors(MODEL, vectors.collect()).await.expect("a sound catalog takes vectors");
        id
    }
}

/// A document whose digest is made of its text.
fn document(path: &str, paragraphs: &[&str]) -> NewDocument {
    let place = DocumentLocation {
        collection: "default".to_owned(),
        repo_url: "https://example.org/it".to_owned(),
        file_path: path.to_owned(),
    };
    let id = place.document();
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
        place,
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
