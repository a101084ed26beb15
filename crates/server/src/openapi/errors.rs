//! Errors in the description. Status, code and message of each are those that the middleware would render on
//! the path.

use std::collections::BTreeMap;
use std::time::Duration;

use dialects::ErrorFormat;
use domain::{PromptId, Rejection};

use crate::api_error::ApiError;

/// The errors that share a status on a path.
#[derive(Default)]
pub(super) struct ErrorDoc {
    /// Messages by code.
    pub(super) messages: BTreeMap<&'static str, String>,
    /// Whether the response may have a `Retry-After` header.
    pub(super) retry_after: bool,
}

/// Errors by status, as a dialect renders them.
pub(super) fn by_status<'a>(
    words: ErrorFormat,
    errors: impl IntoIterator<Item = &'a ApiError>,
) -> BTreeMap<u16, ErrorDoc> {
    let mut statuses: BTreeMap<u16, ErrorDoc> = BTreeMap::new();
    for error in errors {
        let rejected = error.in_dialect(words);
        let status = statuses.entry(rejected.status).or_default();
        status.retry_after |= rejected.retry_after.is_some();
        status.messages.entry(rejected.code).or_insert_with(|| match error {
            // The rendered message names a prompt.
            ApiError::Domain(Rejection::PromptInFlight(_)) => {
                "a prompt of this session is still running; `details` has its id".to_owned()
            }
            _ => rejected.message,
        });
    }
    statuses
}

pub(crate) fn invalid() -> Rejection {
    Rejection::Invalid(
        "something in the request is wrong; the message says what, and what is allowed".to_owned(),
    )
}

pub(crate) fn no_session() -> Rejection {
    Rejection::SessionNotFound
}

pub(crate) fn no_usable_session() -> Rejection {
    Rejection::SessionNotUsable
}

pub(crate) fn no_prompt() -> Rejection {
    Rejection::PromptNotFound
}

pub(crate) fn in_flight() -> Rejection {
    let any: PromptId = "00000000-0000-7000-8000-000000000000".parse().expect("it is a UUID");
    Rejection::PromptInFlight(any)
}

pub(crate) fn key_reused() -> Rejection {
    Rejection::KeyReused
}

pub(crate) fn overloaded() -> Rejection {
    Rejection::Overloaded { message: "there is no room".to_owned(), retry_after: Duration::from_secs(1) }
}

pub(crate) fn stopping() -> Rejection {
    Rejection::Stopping
}

pub(crate) fn storage() -> Rejection {
    Rejection::StorageUnavailable("it takes no new work".to_owned())
}
