//! What this service is, for programs that find it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json;

/// What this service is, and where to go on.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Service")]
pub struct Root {
    name: &'static str,
    version: &'static str,
    docs: &'static str,
    health: &'static str,
}

/// The answer to `GET /`.
pub fn root(version: &'static str) -> Vec<u8> {
    json::reply(&Root { name: "Wellspring", version, docs: "/docs", health: "/health" })
}
