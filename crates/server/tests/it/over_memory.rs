//! The same contract over the in-memory store: [`support::storage`] picks the store by the name of the test
//! binary.

mod chat;
mod dialect_parity;
mod generation;
mod history;
mod knowledge;
mod operations;
mod support;
mod wire_formats;
