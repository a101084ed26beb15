//! The chat dialect: a question, and an answer with its sources, whole or as server-sent events. snake_case.

mod conversation;
pub(crate) mod errors;
mod provenance;
mod reply;
mod request;
mod source;
mod stream;

pub use conversation::{conversation, decode_limit, exchanges};
pub use errors::{late_errors, session_in_path};
pub use reply::AnswerBuilder;
pub use request::decode;
pub use stream::ChatEncoder;
pub(crate) use stream::ChatEventWire;

/// The wire structs, for the API description.
pub mod wire {
    pub use super::conversation::Conversation;
    pub use super::errors::ErrorBody;
    pub use super::reply::ChatReply;
    pub use super::request::ChatRequest;
}
