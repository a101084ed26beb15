//! Providers against real sockets.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

mod dead_host;
mod embedding;
mod fake_server;
mod llama_server;
mod load;
mod ollama;
mod openai;
mod order;
