//! From a text to a document that can be filed: its structure, its names, its chunks.

use std::collections::HashMap;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::{iter, thread};

use domain::{
    Chunk, ChunkId, ChunkKind, Document, DocumentLocation, IngestFailure, IngestStage, Metadata, NewDocument,
    Timestamp, TokenCounter,
};

use crate::chunk::{self, ChunkType, Strategy};
use crate::names::{self, Site};
use crate::{Parsed, parse};

/// Characters of a title. It is embedded with every chunk, and must leave room for the chunk's own words.
const TITLE_CHARS: usize = 200;

/// Does something with every item, on all cores; what comes of it is in the items' order.
pub(super) fn on_all_cores<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work_off = || iter::from_fn(next).map(|(position, item)| (position, work(item))).collect::<Vec<_>>();
    let mut done = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work_off)).collect();
        let done =
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        done.collect::<Vec<_>>()
    });
    done.sort_by_key(|(position, _)| *position);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A document that has only been read.
pub(super) struct Draft {
    pub(super) place: DocumentLocation,
    pub(super) kind: domain::SourceKind,
    /// The path that its names are made of.
    pub(super) path: String,
    pub(super) title: Option<String>,
    pub(super) text: String,
    pub(super) metadata: Metadata,
    pub(super) digest: [u8; 32],
}

/// Cuts documents.
#[derive(Clone)]
pub(super) struct Cutter {
    pub(super) strategy: Strategy,
    pub(super) count: TokenCounter,
}

impl Cutter {
    /// The document with its names and chunks. Whatever is in its text, it stops no other document.
    pub(super) fn prepare(
        &self,
        draft: Draft,
        site: Option<&Site>,
        at: Timestamp,
    ) -> Result<NewDocument, IngestFailure> {
        let place = draft.place.clone();
        catch_unwind(AssertUnwindSafe(|| self.cut(draft, site, at))).map_err(|_| IngestFailure {
            place,
            stage: IngestStage::Parsing,
            message: "the parser failed on this document, which is a bug; the log says where".to_owned(),
        })
    }

    fn cut(&self, draft: Draft, site: Option<&Site>, at: Timestamp) -> NewDocument {
        let parsed = parse(&draft.path, &draft.text);
        let id = draft.place.document();
        let chunks = chunk::chunks(&parsed, self.strategy, &*self.count);
        let chunks = Ids::default().give(id, &draft.text, chunks);
        let given = |name: &str| draft.metadata.get(name).and_then(|value| serde_json::from_str(value).ok());
        let (url, module): (Option<String>, Option<String>) = (given("url"), given("module"));
        let route = || site.and_then(|site| site.route(&draft.path, parsed.front_matter(), None));
        let document = Document {
            id,
            source: draft.kind,
            title: title(draft.title.as_deref(), &parsed, &draft.path),
            language: parsed.media().language().map(str::to_owned),
            url: url.filter(|url| !url.trim().is_empty()).or_else(route),
            module: Some(names::module(module.as_deref(), &draft.path, &draft.place.collection)),
            tags: names::tags(&parsed).to_vec(),
            metadata: draft.metadata,
            place: draft.place,
            text: draft.text,
        };
        NewDocument { document, chunks, digest: draft.digest, at }
    }
}

fn title(given: Option<&str>, document: &Parsed<'_>, path: &str) -> String {
    names::title(given, document, path).chars().take(TITLE_CHARS).collect()
}

/// Gives chunks their ids; those with the same words are counted.
#[derive(Default)]
struct Ids {
    earlier: HashMap<ChunkId, usize>,
}

impl Ids {
    fn give(&mut self, document: domain::DocumentId, text: &str, chunks: Vec<chunk::Chunk>) -> Vec<Chunk> {
        let mut filed = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let words = &text[chunk.range.clone()];
            let first = Chunk::id(document, &chunk.context, words, 0);
            let earlier = self.earlier.entry(first).or_default();
            filed.push(Chunk {
                id: if *earlier == 0 { first } else { Chunk::id(document, &chunk.context, words, *earlier) },
                bytes: chunk.range,
                lines: chunk.lines,
                kind: chunk.chunk_type.map(kind),
                section: chunk.section,
                subsection: chunk.subsection,
                anchor: chunk.heading.and_then(|heading| heading.anchor),
                context: chunk.context,
            });
            *earlier += 1;
        }
        filed
    }
}

fn kind(chunk_type: ChunkType) -> ChunkKind {
    match chunk_type {
        ChunkType::Section => ChunkKind::Section,
        ChunkType::Subsection => ChunkKind::Subsection,
        ChunkType::ParagraphGroup => ChunkKind::ParagraphGroup,
    }
}
