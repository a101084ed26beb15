//! The crate from outside: real-looking files, a recorded baseline, properties, attacks.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

mod attacks;
mod golden;
mod properties;
mod tokens;
mod words;
