//! The calls of the knowledge base: taking documents in, listing them, searching. camelCase, as in the
//! generation dialect.

mod documents;
mod ingest;
mod query;
mod refused;

pub use documents::{Page, collections, decode_page, document, documents, page_schemas};
pub use ingest::{decode_ingest, ingested};
pub use query::{QueryRequest, decode_query, hits};
pub use refused::{no_such_document, not_retrieved};

/// What goes over the wire, for those who describe it.
pub mod wire {
    pub use super::documents::{CollectionsReply, DocumentReply, DocumentsReply};
    pub use super::ingest::{IngestReply, IngestRequest};
    pub use super::query::{HitReply, RequestWire};
}
