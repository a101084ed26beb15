//! Wire formats: each dialect decodes requests and encodes events. Pure: no sockets, no clock, no rules of
//! its own beyond its format.

mod encoder;
pub mod events;
pub mod generation;
pub mod history;
mod json;

pub use encoder::Encoder;
