//! Settings of the server.

use std::time::Duration;

use crate::client_address::IpNetwork;
use crate::connections::ConnectionLimits;

/// Bounds and rules of the server, already validated.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Upper bound on a request body, in bytes.
    pub body_bytes: usize,
    /// Upper bound on the body of an ingest request, in bytes.
    pub ingest_body_bytes: usize,
    /// Upper bound on the query of `POST /api/query`, in characters.
    pub question_chars: usize,
    /// Origins whose pages may call from a browser; `*` allows all.
    pub allowed_origins: Vec<String>,
    /// How long running prompts may continue after the first stop signal.
    pub drain: Duration,
    /// How many connections are open at once, and their timeouts.
    pub connections: ConnectionLimits,
    /// Requests of one client address in a minute; 0 means no limit.
    pub requests_per_minute: u32,
    /// Proxies whose `Forwarded` and `X-Forwarded-For` headers are believed.
    pub trusted_proxies: Vec<IpNetwork>,
}
