//! Models that run in the process, without a model server.
//!
//! * [`files`] gets a model here: the manifest of known models with the hash of every file, the folder of
//!   their files, and the command that downloads them. Nothing else in this crate uses the network.
//! * [`embedder`] turns texts into vectors, in pure Rust: it is the port `domain::Embedder` over a BERT-like
//!   model.
//! * [`chat`] generates answers, through llama.cpp: it is the port `domain::Provider` over a GGUF model, with
//!   a prefix cache for the passages of prompts.
//!
//! Both models exist at once and load on a thread of their own; until then, and after a failure, every call
//! and the health check say so. Both compute on threads of their own, never on those of the async runtime.

pub mod chat;
pub mod embedder;
pub mod files;
