//! The calls of the knowledge base: taking documents in, listing them, searching. camelCase, as in the
//! generation dialect.

mod documents;
mod ingest;
mod query;
mod refused;

pub use documents::{Page, collections, decode_page, document, documents};
pub use ingest::{decode_ingest, ingested};
pub use query::{QueryRequest, decode_query, hits};
pub use refused::{no_such_document, not_retrieved};
