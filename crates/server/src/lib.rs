//! The HTTP server: routes, the rules of the door (hosts, origins, sizes), and streams of a log. What a
//! request means is a dialect's business, what happens then the engine's.

mod body;
mod client;
mod connections;
mod door;
mod health;
mod ingests;
mod metrics;
mod openapi;
mod rate;
mod refusal;
mod routes;
mod serve;
mod stream;

pub use client::Network;
pub use connections::Patience;
pub use serve::{Knowledge, Parts, Settings, serve};
