//! Providers against real sockets.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

mod dead_host;
mod embedding;
mod failover;
mod fake_server;
mod fallback;
mod llama_server;
mod ollama;
mod openai;
mod tokens;
