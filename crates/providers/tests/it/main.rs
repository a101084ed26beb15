//! Providers against real sockets.

#![expect(clippy::unwrap_used, reason = "an unexpected value fails the test")]

mod dead_host;
mod embedding;
mod failover;
mod fake_server;
mod fallback;
mod llama_server;
mod ollama;
mod openai;
mod tokens;
