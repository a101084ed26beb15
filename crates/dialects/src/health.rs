//! Health as orchestrators read it.

use domain::Failure;
use serde::Serialize;

use crate::json;

#[derive(Serialize)]
struct Ready<'a> {
    status: &'static str,
    services: Services<'a>,
}

#[derive(Serialize)]
struct Services<'a> {
    embedding: Service<'a>,
    index: Service<'a>,
}

#[derive(Serialize)]
struct Service<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// The answer to `GET /health/ready` while prompts are taken: also who is not at their best.
pub fn ready(embedding: &Result<(), Failure>, index: &Result<(), Failure>) -> Vec<u8> {
    let services = Services { embedding: service(embedding), index: service(index) };
    json::reply(&Ready { status: "ready", services })
}

fn service(health: &Result<(), Failure>) -> Service<'_> {
    match health {
        Ok(()) => Service { status: "up", message: None },
        Err(failure) => Service { status: "degraded", message: Some(&failure.message) },
    }
}
