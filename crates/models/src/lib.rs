//! Models that run in the process, and the files they are made of.

pub mod chat;
pub mod embedder;
pub mod files;
