//! Refusals: what is said at the door, and in whose words.

use std::time::Duration;

use domain::{Rejection, TraceId};
use serde_json::Value;

use crate::{chat, generation};

/// A message repeats what a client sent only up to here.
const MESSAGE_CHARS: usize = 1_000;

/// A refusal: a status, and what its body says.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The HTTP status.
    pub status: u16,
    /// What to branch on.
    pub code: &'static str,
    /// What to tell a person.
    pub message: String,
    /// What a program may need to go on.
    pub details: Option<Value>,
    /// When asking again may help.
    pub retry_after: Option<Duration>,
}

impl Rejected {
    /// A refusal with nothing more to say.
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = match message.char_indices().nth(MESSAGE_CHARS) {
            Some((end, _)) => message[..end].to_owned(),
            None => message,
        };
        Self { status, code, message, details: None, retry_after: None }
    }
}

/// Whose words a refusal is told in. Calls that belong to no dialect use those of the generation dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// `{code, message, details?, traceId}`
    Generation,
    /// `{error_code, message, details?, trace_id}`: of the chat and the staged dialect.
    Chat,
}

impl Words {
    /// What a rejection is in these words.
    pub fn rejected(self, rejection: &Rejection) -> Rejected {
        match self {
            Self::Generation => generation::rejected(rejection),
            Self::Chat => chat::rejected(rejection),
        }
    }

    /// The body of a refusal, as JSON.
    pub fn body(self, rejected: &Rejected, trace: TraceId) -> Vec<u8> {
        match self {
            Self::Generation => generation::error_body(rejected, trace),
            Self::Chat => chat::error_body(rejected, trace),
        }
    }
}
