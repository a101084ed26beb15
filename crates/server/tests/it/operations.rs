//! What every route shares, and what operators use: connections, middleware, health, metrics, the API's
//! description.

mod connections;
mod health;
mod metrics;
mod middleware;
mod openapi;
mod rate_limit;
mod shutdown;
