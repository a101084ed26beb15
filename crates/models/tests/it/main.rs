//! Models, with their real files and with the faults of the way to them.

mod chat;
mod embedder;
mod files;
mod files_hub;
mod passages;
