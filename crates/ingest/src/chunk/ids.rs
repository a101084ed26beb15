//! Assigns the ids under which chunks are stored.

use std::collections::HashMap;

use domain::{Chunk, ChunkId, DocumentId};

use super::TextChunk;

/// The chunks of a document's text as the catalog stores them. Chunks with equal context and text get different
/// ids, by their number among their equals.
pub fn with_ids(document: DocumentId, text: &str, chunks: Vec<TextChunk>) -> Vec<Chunk> {
    let mut equal_before: HashMap<ChunkId, usize> = HashMap::new();
    let stored = |chunk: TextChunk| {
        let words = &text[chunk.range.clone()];
        let first = Chunk::id(document, &chunk.context, words, 0);
        let earlier = equal_before.entry(first).or_default();
        let id = if *earlier == 0 { first } else { Chunk::id(document, &chunk.context, words, *earlier) };
        *earlier += 1;
        Chunk {
            id,
            bytes: chunk.range,
            lines: chunk.lines,
            kind: chunk.kind,
            section: chunk.section,
            subsection: chunk.subsection,
            anchor: chunk.heading.and_then(|heading| heading.anchor),
            context: chunk.context,
        }
    };
    chunks.into_iter().map(stored).collect()
}
