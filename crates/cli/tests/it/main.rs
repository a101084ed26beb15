//! The real binary, from the outside.

mod ahead;
mod ask;
mod backup;
mod binary;
mod breaker;
mod burst;
mod chat;
mod client;
mod config;
mod crash;
mod dashboard;
mod demos;
mod deploy;
mod described;
mod embedding;
mod eval;
mod failing;
mod full_disk;
mod ingest;
mod ingest_crash;
mod logs;
mod measured;
mod models;
#[path = "../../../models/tests/it/files_hub.rs"]
mod models_hub;
#[path = "../../../storage/tests/it/faults/mounts.rs"]
mod mounts;
mod prometheus;
mod search;
mod serve;
mod service_manager;
mod slow_readers;
mod stop;
