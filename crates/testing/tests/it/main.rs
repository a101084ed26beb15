//! The fake model server, tested through raw sockets.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod client;
mod command;
mod embeddings;
mod endings;
mod faults;
mod lists;
mod ollama;
mod openai;
