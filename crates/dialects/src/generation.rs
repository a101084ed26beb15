//! The generation dialect: sessions, prompts and a stream of deltas, as NDJSON or SSE. camelCase.

mod delta;
pub(crate) mod errors;
mod framing;
mod reply;
mod request;
mod source;

pub use delta::{DeltaEncoder, terminal_seq};
pub use errors::failure_code;
pub use framing::Encoding;
pub(crate) use reply::SessionStatusWire;
pub use reply::{health, prompt, session, session_started};
pub use request::{CancelPrompt, decode_cancel, decode_prompt, decode_session, resume_position};
pub(crate) use source::{SourceWire, sources};

/// The wire structs, for the API description.
pub mod wire {
    pub use super::delta::Delta;
    pub use super::errors::ErrorBody;
    pub use super::reply::{HealthReply, PromptReply, PromptStatusWire, SessionReply, SessionStarted};
    pub use super::request::{CancelRequest, PromptRequest, SessionRequest};
}
