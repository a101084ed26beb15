//! Turns a text into a document that the catalog can store: parses, names and chunks it.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::{iter, thread};

use domain::{
    Document, DocumentLocation, IngestFailure, IngestStage, Metadata, NewDocument, SourceKind, Timestamp,
    TokenCounter,
};

use crate::chunk::{self, ChunkStrategy};
use crate::names::{self, DocusaurusSite};
use crate::{ParsedDocument, parse};

/// Maximum characters of a title. It is embedded with every chunk and must leave room for the chunk's text.
const TITLE_CHARS: usize = 200;

/// A text with what is known of it before it is parsed.
pub(super) struct Draft {
    pub(super) place: DocumentLocation,
    pub(super) kind: SourceKind,
    /// The path relative to the source, from which the names are derived.
    pub(super) path: String,
    pub(super) title: Option<String>,
    pub(super) text: String,
    pub(super) metadata: Metadata,
    pub(super) digest: [u8; 32],
}

/// Parses and chunks drafts.
#[derive(Clone)]
pub(super) struct Chunker {
    pub(super) strategy: ChunkStrategy,
    pub(super) count_tokens: TokenCounter,
}

impl Chunker {
    /// The document of a draft. A panic of the parser fails this document only.
    pub(super) fn prepare(
        &self,
        draft: Draft,
        site: Option<&DocusaurusSite>,
        at: Timestamp,
    ) -> Result<NewDocument, IngestFailure> {
        let place = draft.place.clone();
        catch_unwind(AssertUnwindSafe(|| self.chunk(draft, site, at))).map_err(|_| IngestFailure {
            place,
            stage: IngestStage::Parsing,
            message: "the parser failed on this document, which is a bug; the log says where".to_owned(),
        })
    }

    fn chunk(&self, draft: Draft, site: Option<&DocusaurusSite>, at: Timestamp) -> NewDocument {
        let parsed = parse(&draft.path, &draft.text);
        let id = draft.place.document();
        let chunks = chunk::chunk_document(&parsed, self.strategy, &*self.count_tokens);
        let chunks = chunk::with_ids(id, &draft.text, chunks);
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

fn title(given: Option<&str>, document: &ParsedDocument<'_>, path: &str) -> String {
    names::title(given, document, path).chars().take(TITLE_CHARS).collect()
}

/// Maps items on all cores. The results are in the items' order.
pub(super) fn map_on_all_cores<T: Send, R: Send>(items: Vec<T>, map: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || iter::from_fn(next).map(|(position, item)| (position, map(item))).collect::<Vec<_>>();
    let mut results = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results =
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.collect::<Vec<_>>()
    });
    results.sort_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}
