//! Wire formats: each dialect decodes requests and encodes events. Pure: no sockets, no clock, no rules of
//! its own beyond its format.

mod encoder;
pub mod generation;
mod json;

pub use encoder::Encoder;
