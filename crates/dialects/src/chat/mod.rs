//! The chat dialect: a question, an answer with its sources, whole or as server-sent events. snake_case.

mod basis;
mod conversation;
mod rejected;
mod reply;
mod request;
mod source;
mod stream;

pub use conversation::{conversation, decode_limit, exchanges};
pub(crate) use rejected::{error_body, rejected};
pub use rejected::{failures, session_in_path};
pub use reply::Answer;
pub use request::decode;
pub use stream::ChatEncoder;
pub(crate) use stream::Told;

/// What goes over the wire, for those who describe it.
pub mod wire {
    pub use super::conversation::Conversation;
    pub use super::rejected::ErrorBody;
    pub use super::reply::ChatReply;
    pub use super::request::ChatRequest;
}
