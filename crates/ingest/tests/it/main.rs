//! The crate from outside: real-looking files, a recorded baseline, properties, attacks; whole sources, read into
//! a real catalog.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

mod attacks;
mod crash;
mod documents;
mod folders;
mod fuzz;
mod golden;
mod hostile;
mod library;
mod properties;
mod repositories;
mod speed;
mod tokens;
mod words;
