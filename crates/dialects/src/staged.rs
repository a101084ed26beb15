//! The staged dialect: every stage on the way to an answer as an event of its own. It shares the chat dialect's path and
//! its replies to rejected requests.

mod encoder;
mod errors;
mod request;
mod session;

pub use encoder::StagedEncoder;
pub use errors::no_running_stream;
pub use request::decode;
pub use session::{StreamingSession, health};

/// The wire structs, for the API description.
pub mod wire {
    pub use super::encoder::StreamEvent;
    pub use super::request::StreamRequest;
    pub use super::session::{HealthReply, StreamingSessionReply};
}
