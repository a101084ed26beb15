//! Wire formats: each dialect decodes requests and encodes events. Pure: no sockets, no clock, no rules of
//! its own beyond its format.

mod encoder;
pub mod events;
mod filters;
pub mod generation;
pub mod health;
pub mod history;
mod json;
pub mod knowledge;
pub mod service;

pub use encoder::Encoder;
