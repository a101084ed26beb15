//! Health as orchestrators and people read it.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{KeptPassages, Timestamp};
use serde::Serialize;

use crate::json;

/// How a part of the server is.
#[derive(Clone, Debug)]
pub struct Part {
    /// How it is; why, if it is not at its best.
    pub state: State,
    /// How long it took to tell, if it was asked just now.
    pub latency: Option<Duration>,
}

/// How a part is.
#[derive(Clone, Debug)]
pub enum State {
    /// It works.
    Up,
    /// The server does without it, or it will be there soon.
    Degraded(String),
    /// It does not work.
    Down(String),
}

/// How the server is as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overall {
    /// Every part works.
    Healthy,
    /// Questions are answered, not all of them as they should be.
    Degraded,
    /// Questions are not answered.
    Unhealthy,
}

#[derive(Serialize)]
struct Ready<'a> {
    status: &'static str,
    services: Services<'a>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    kept_passages: BTreeMap<&'a str, Kept>,
}

#[derive(Serialize)]
struct Kept {
    hits: u64,
    misses: u64,
    memory_bytes: u64,
    disk_bytes: u64,
}

#[derive(Serialize)]
struct Services<'a> {
    embedding: Service<'a>,
    index: Service<'a>,
}

#[derive(Serialize)]
struct Report<'a> {
    status: &'static str,
    services: BTreeMap<&'a str, Service<'a>>,
    timestamp: String,
}

#[derive(Serialize)]
struct Service<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// The answer to `GET /health/ready` while prompts are taken: also who is not at their best, and what providers keep of
/// the passages that they have read.
pub fn ready(embedding: &Part, index: &Part, kept: &BTreeMap<String, KeptPassages>) -> Vec<u8> {
    let service = |part| Service { latency_ms: None, ..service(part) };
    let services = Services { embedding: service(embedding), index: service(index) };
    let kept_passages = kept.iter().map(|(provider, kept)| (&**provider, self::kept(*kept))).collect();
    json::reply(&Ready { status: "ready", services, kept_passages })
}

fn kept(kept: KeptPassages) -> Kept {
    let KeptPassages { hits, misses, memory_bytes, disk_bytes } = kept;
    Kept { hits, misses, memory_bytes, disk_bytes }
}

/// The answer to `GET /health`.
pub fn report(overall: Overall, parts: &BTreeMap<String, Part>, at: Timestamp) -> Vec<u8> {
    let status = match overall {
        Overall::Healthy => "healthy",
        Overall::Degraded => "degraded",
        Overall::Unhealthy => "unhealthy",
    };
    let services = parts.iter().map(|(name, part)| (&**name, service(part))).collect();
    json::reply(&Report { status, services, timestamp: at.to_string() })
}

fn service(part: &Part) -> Service<'_> {
    let (status, message) = match &part.state {
        State::Up => ("up", None),
        State::Degraded(why) => ("degraded", Some(&**why)),
        State::Down(why) => ("down", Some(&**why)),
    };
    let latency_ms = part.latency.map(|latency| (latency.as_secs_f64() * 1e5).round() / 100.0);
    Service { status, latency_ms, message }
}
