//! Wire formats. Each dialect decodes requests into the domain's types and encodes events and replies.
//!
//! - [`generation`]: sessions, prompts and a stream of deltas (camelCase).
//! - [`chat`]: a question and an answer with its sources, whole or streamed (snake_case); [`chat_stream`] is the path
//!   that it shares with the staged dialect.
//! - [`staged`]: every stage on the way to an answer as an event of its own.
//! - [`knowledge`]: ingesting, listing and searching documents.
//! - [`events`], [`history`], [`health`], [`service`]: what the pages and operators read.
//!
//! Every dialect has the same parts: a request that is decoded, an [`Encoder`] over the log of a prompt, and one
//! `errors.rs` with all that a client sees when something fails. `fields`, `filters`, `json` and [`sse`] are shared.
//!
//! Invariants: no sockets, no clock, and no rules beyond the format. An encoder's output follows from the events alone,
//! from the first one on, so that a resumed stream continues the first one byte for byte. Wire structs are serializable,
//! domain types are not.

pub mod chat;
pub mod chat_stream;
mod encoder;
mod errors;
pub mod events;
mod fields;
mod filters;
#[cfg(test)]
mod fixture;
pub mod generation;
pub mod health;
pub mod history;
mod json;
pub mod knowledge;
pub mod service;
pub mod sse;
pub mod staged;

pub use encoder::Encoder;
pub use errors::{ErrorFormat, ErrorReply, failure_meaning};
pub use fields::limit_schema;
pub use generation::failure_code;
