//! The chat dialect: a question, an answer with its sources, whole or as server-sent events. snake_case.

mod basis;
mod conversation;
mod rejected;
mod reply;
mod request;
mod source;
mod stream;

pub use conversation::{conversation, decode_limit, exchanges};
pub use rejected::session_in_path;
pub(crate) use rejected::{error_body, rejected};
pub use reply::Answer;
pub use request::decode;
pub use stream::ChatEncoder;
