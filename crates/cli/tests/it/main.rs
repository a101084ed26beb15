//! The real binary, from the outside.

mod binary;
mod chat;
mod client;
mod config;
mod crash;
mod demos;
mod embedding;
mod full_disk;
mod logs;
mod models;
#[path = "../../../models/tests/it/files_hub.rs"]
mod models_hub;
#[path = "../../../storage/tests/it/faults/mounts.rs"]
mod mounts;
mod serve;
mod stop;
