//! The HTTP server: connections, middleware, routes, and prompts streamed from their logs.
//!
//! A request passes these parts, in this order:
//!
//! 1. `connections` accepts sockets up to a bound and closes those whose client is idle, sends its request
//!    head too slowly, or does not read its response.
//! 2. `middleware` assigns the trace id, enforces the rate limit, answers CORS, refuses foreign host names on
//!    a loopback address, and turns a panic into an error. It also renders every error in the format of
//!    its dialect.
//! 3. `routes` has a file for each endpoint group: its paths, their OpenAPI description, and their handlers.
//! 4. `request_body` reads a bounded body; the `dialects` crate decodes it, the `engine` crate runs the
//!    prompt.
//! 5. `log_stream` streams the prompt's log as the response body, encoded by the dialect.
//!
//! Beside them: `ingest_tasks` runs a bounded number of ingest requests, `health_checks` caches how the
//! dependencies are, `metrics` writes the Prometheus page, `openapi` describes the routes, and `serve` starts
//! and drains all of it.
//!
//! Invariants:
//! - The caller passes the listener and the stop signals, and every spawned task is awaited before [`serve`]
//!   returns.
//! - A handler decides nothing about sessions or prompts: it decodes, calls the engine, and encodes.
//! - A route cannot be added without its description, and the served description is the committed one.
//! - A client that does not read holds one frame of its stream in this process, whatever the log's length.
//! - Nothing that a client sent becomes a metric label.

mod api_error;
mod app;
mod client_address;
mod connections;
mod headers;
mod health_checks;
mod ingest_tasks;
mod log_stream;
mod metrics;
mod middleware;
mod openapi;
mod request_body;
mod routes;
mod serve;
mod settings;

pub use app::{KnowledgeParts, ServerParts};
pub use client_address::IpNetwork;
pub use connections::ConnectionLimits;
pub use serve::serve;
pub use settings::ServerSettings;
