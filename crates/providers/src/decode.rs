//! Decoding of streamed answers. Pure and incremental: the events follow from the bytes alone, however these are cut
//! into reads.
//!
//! Bytes become [`lines`], lines become the messages of [`sse`] or frames of NDJSON, and a provider's decoder turns
//! their JSON into [`events`]. [`utf8`] joins characters that a server cut between two frames.

mod events;
#[cfg(test)]
pub(crate) mod fixture;
mod lines;
mod sse;
mod utf8;

pub(crate) use events::{AnswerDecoder, EventQueue, MAX_TOOL_CALLS};
pub(crate) use lines::Lines;
#[cfg(test)]
pub(crate) use lines::MAX_FRAME;
pub(crate) use sse::{Sse, SseMessage};
pub(crate) use utf8::{RawText, Utf8Joiner};
