//! Wire formats: each dialect decodes requests and encodes events. Pure: no sockets, no clock, no rules of
//! its own beyond its format.

pub mod chat;
pub mod chat_stream;
mod encoder;
pub mod events;
mod failures;
mod fields;
mod filters;
pub mod generation;
pub mod health;
pub mod history;
mod json;
pub mod knowledge;
#[cfg(test)]
mod logs;
mod refusals;
pub mod service;
pub mod sse;
pub mod staged;

pub use encoder::Encoder;
pub use failures::{failure_code, failure_meaning};
pub use fields::limit_schema;
pub use refusals::{Rejected, Words};
