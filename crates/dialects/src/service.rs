//! What this service is, for programs that find it.

use serde::Serialize;

use crate::json;

#[derive(Serialize)]
struct Root {
    name: &'static str,
    version: &'static str,
    docs: &'static str,
    health: &'static str,
}

/// The answer to `GET /`.
pub fn root(version: &'static str) -> Vec<u8> {
    json::reply(&Root { name: "Wellspring", version, docs: "/docs", health: "/health" })
}
