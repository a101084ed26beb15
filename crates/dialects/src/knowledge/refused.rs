//! Refusals of the knowledge base, in the generation dialect's shape.

use domain::{Failure, FailureKind};

use crate::Rejected;

/// There is no document with the id that a path names.
pub fn no_such_document() -> Rejected {
    Rejected::new(404, "document_not_found", "there is no such document")
}

/// Why nothing could be looked for. Whoever embeds is a part of retrieval here, so its failures are retrieval's.
pub fn not_retrieved(failure: Failure) -> Rejected {
    let (status, code) = match failure.kind {
        FailureKind::Internal => (500, "internal_error"),
        FailureKind::Overloaded => (503, "overloaded"),
        _ => (503, "retrieval_unavailable"),
    };
    Rejected { retry_after: failure.retry_after, ..Rejected::new(status, code, failure.message) }
}
