//! The description of this service at `/`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::json;

/// The service, and the paths of its documentation and health.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Service")]
pub struct Root {
    name: &'static str,
    version: &'static str,
    docs: &'static str,
    health: &'static str,
}

/// The reply to `GET /`.
pub fn root(version: &'static str) -> Vec<u8> {
    json::reply(&Root { name: "Wellspring", version, docs: "/docs", health: "/health" })
}
