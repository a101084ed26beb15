//! Ingest: documents from folders, git repositories and clients become chunks with vectors in the catalog.
//!
//! A document passes these modules in order:
//! 1. [`sources`] lists and reads the files of a folder or of a repository at one commit.
//! 2. [`media`] decides from the path and the first line what a file is; bytes that are not UTF-8 text are
//!    rejected.
//! 3. [`parse()`] finds the structure: headings of Markdown, definitions of code by a tree-sitter grammar.
//! 4. [`chunk`] splits the text along that structure into chunks that fit the embedding model.
//! 5. [`names`] derives title, module, tags and the route on a Docusaurus site.
//! 6. [`Pipeline`] runs these steps, stores the documents in the catalog and embeds their chunks.
//!
//! Invariants:
//! - Steps 2 to 5 are pure functions without I/O or clock: equal bytes give equal chunks.
//! - The default strategy loses nothing: the chunks of a document cover its text in order, without overlap.
//! - Every document has a digest over all that determines its chunks and names. A document whose digest the
//!   catalog has is neither parsed nor embedded again.
//! - The catalog is the queue between storing and embedding, so a crash loses nothing and the next run embeds
//!   what has no vector yet.
//! - A source is untrusted: no link is followed out of it, no program that it names is run, and sizes, times and
//!   nesting are bounded. A document that cannot be ingested does not stop the others.
//! - Credentials in an address are never stored, logged or shown.

pub mod chunk;
pub mod media;
pub mod names;
mod parse;
mod pipeline;
pub mod sources;

pub use parse::{FrontMatter, ParsedDocument, parse};
pub use pipeline::{
    IngestError, IngestProgress, OnProgress, Pipeline, PipelinePorts, PipelineSettings, SourceReport,
};
