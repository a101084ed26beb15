//! What a client of the staged dialect sees when an answer fails. A rejected request has the chat dialect's reply
//! (`chat/errors.rs`).

use domain::FailureKind;
use schemars::{Schema, SchemaGenerator};

use crate::ErrorReply;
use crate::errors::code_schema;

/// The code of a failure in `error` events.
pub(super) fn failure_code(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Unavailable | FailureKind::Refused => "PROVIDER_UNAVAILABLE",
        FailureKind::SilentAtStart | FailureKind::Stalled => "PROVIDER_TIMEOUT",
        FailureKind::Died => "PROVIDER_ERROR",
        FailureKind::EmptyAnswer => "EMPTY_ANSWER",
        FailureKind::TooLong => "PROMPT_TOO_LONG",
        FailureKind::Retrieval | FailureKind::Embedding => "RETRIEVAL_ERROR",
        FailureKind::Overloaded => "OVERLOADED",
        FailureKind::Interrupted => "INTERRUPTED",
        FailureKind::Internal => "INTERNAL_ERROR",
    }
}

/// Every code of [`failure_code`], as JSON Schema.
pub(super) fn failure_codes(_: &mut SchemaGenerator) -> Schema {
    code_schema(failure_code)
}

/// The reply where no prompt runs in the session.
pub fn no_running_stream() -> ErrorReply {
    ErrorReply::new(404, "not_found", "no stream runs in this session")
}
