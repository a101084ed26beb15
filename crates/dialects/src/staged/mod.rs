//! The staged dialect: every stage on the way to an answer as an event of its own. It shares the chat dialect's path and
//! its refusals.

mod encoder;
mod request;
mod session;

pub use encoder::StagedEncoder;
pub use request::decode;
pub use session::{Session, health, nothing_runs};

/// What goes over the wire, for those who describe it.
pub mod wire {
    pub use super::encoder::StreamEvent;
    pub use super::request::StreamRequest;
    pub use super::session::{Health, StreamingSession};
}
