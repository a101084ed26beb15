//! The calls of the knowledge base: ingesting, listing and searching documents. camelCase, as in the generation
//! dialect.

mod documents;
mod errors;
mod ingest;
mod query;

pub use documents::{Page, collections, decode_page, document, documents, page_schemas};
pub use errors::{document_not_found, search_failed};
pub use ingest::{decode_ingest, ingested};
pub use query::{SearchRequest, decode_query, hits};

/// The wire structs, for the API description.
pub mod wire {
    pub use super::documents::{CollectionsReply, DocumentReply, DocumentsReply};
    pub use super::ingest::{IngestReply, IngestRequest};
    pub use super::query::{HitReply, QueryRequest};
}
