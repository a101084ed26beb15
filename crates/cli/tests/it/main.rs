//! The real binary, from the outside.

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
mod embedding;
mod eval;
mod full_disk;
mod ingest;
mod ingest_crash;
mod logs;
mod metrics;
mod models;
#[path = "../../../models/tests/it/files_hub.rs"]
mod models_hub;
#[path = "../../../storage/tests/it/faults/mounts.rs"]
mod mounts;
mod openapi_conformance;
mod prometheus;
mod provider_failures;
mod search;
mod serve;
mod service_manager;
mod shutdown;
mod slow_readers;
mod warmup;
