//! The HTTP contract, over real sockets and the durable store: one module for each endpoint group.

mod chat;
mod dialect_parity;
mod generation;
mod history;
mod knowledge;
mod operations;
mod support;
mod wire_formats;
