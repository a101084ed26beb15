//! The generation dialect: sessions, prompts and a stream of deltas, as NDJSON or SSE. camelCase.

mod delta;
mod rejected;
mod reply;
mod request;
mod source;

pub use delta::{DeltaEncoder, Encoding, terminal_seq};
pub(crate) use rejected::{error_body, rejected};
pub(crate) use reply::SessionStatusWire;
pub use reply::{health, prompt, session, session_started};
pub use request::{Cancel, decode_cancel, decode_prompt, decode_session, resume_position};
pub(crate) use source::{Source, sources};

/// What goes over the wire, for those who describe it.
pub mod wire {
    pub use super::delta::Delta;
    pub use super::rejected::ErrorBody;
    pub use super::reply::{HealthReply, PromptReply, PromptStatusWire, SessionReply, SessionStarted};
    pub use super::request::{CancelRequest, PromptRequest, SessionRequest};
}
