//! What a client of the knowledge base sees when a call fails, in the generation dialect's format. A rejected request
//! has the generation dialect's reply (`generation/errors.rs`).

use domain::{Failure, FailureKind};

use crate::ErrorReply;

/// The reply where no document has the id in the path.
pub fn document_not_found() -> ErrorReply {
    ErrorReply::new(404, "document_not_found", "there is no such document")
}

/// The reply when a search fails. Embedding the query is a part of retrieval here.
pub fn search_failed(failure: Failure) -> ErrorReply {
    let (status, code) = match failure.kind {
        FailureKind::Internal => (500, "internal_error"),
        FailureKind::Overloaded => (503, "overloaded"),
        _ => (503, "retrieval_unavailable"),
    };
    ErrorReply { retry_after: failure.retry_after, ..ErrorReply::new(status, code, failure.message) }
}
