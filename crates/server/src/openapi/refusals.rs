//! Refusals in a description. What each of them is called on a path is asked of those who would tell it there.

use std::collections::BTreeMap;
use std::time::Duration;

use dialects::{Rejected, Words};
use domain::{PromptId, Rejection};

use crate::refusal::Refusal;

/// What a status means on a path: codes, and what each of them says.
#[derive(Default)]
pub(super) struct Refused {
    pub(super) said: BTreeMap<&'static str, String>,
    /// It may tell when to ask again.
    pub(super) retry_after: bool,
}

/// Refusals by their status, in these words.
pub(super) fn by_status<'a>(
    words: Words,
    refusals: impl IntoIterator<Item = &'a Refusal>,
) -> BTreeMap<u16, Refused> {
    let mut statuses: BTreeMap<u16, Refused> = BTreeMap::new();
    for refusal in refusals {
        let rejected = match refusal {
            Refusal::Rejection(rejection) => words.rejected(rejection),
            Refusal::Rejected(rejected) => rejected.clone(),
        };
        let refused = statuses.entry(rejected.status).or_default();
        refused.retry_after |= rejected.retry_after.is_some();
        refused.said.entry(rejected.code).or_insert_with(|| said(refusal, rejected));
    }
    statuses
}

fn said(refusal: &Refusal, rejected: Rejected) -> String {
    match refusal {
        // The message names the prompt, of which there is none here.
        Refusal::Rejection(Rejection::PromptInFlight(_)) => {
            "a prompt of this session is still running; `details` has its id".to_owned()
        }
        _ => rejected.message,
    }
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
