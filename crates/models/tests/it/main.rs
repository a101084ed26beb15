//! Models with their real files, and pulls of model files from a faulty hub.

mod chat;
mod embedder;
mod files;
mod files_hub;
mod prefix_cache;
