//! Health as orchestrators and people read it.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{PrefixCacheStats, ProviderStatus, Timestamp, WarmupProgress};
use schemars::JsonSchema;
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

/// That prompts are taken, and how those are who are not needed for that.
#[derive(Serialize, JsonSchema)]
pub struct Ready<'a> {
    /// `ready`
    status: &'static str,
    /// Status of each service
    services: BTreeMap<&'a str, Service<'a>>,
    /// What each provider in this process keeps of the passages that it has read
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    kept_passages: BTreeMap<&'a str, Kept>,
    /// How far each provider in this process is with the passages that it reads ahead of any question
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reading_ahead: BTreeMap<&'a str, Ahead<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Kept {
    /// Pieces of prompts that were there when they were needed
    hits: u64,
    /// Pieces that were not
    misses: u64,
    memory_bytes: u64,
    disk_bytes: u64,
    /// Pieces that are being read by themselves, or wait until there is time for it
    unread: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Ahead<'a> {
    state: AheadWire,
    /// Why it is not at it
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// Passages that were looked at so far
    passages: u64,
    /// Those of them that had to be read; the others were kept already, or cannot be
    read: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[expect(dead_code, reason = "states that earlier releases sent")]
enum AheadWire {
    Waiting,
    Reading,
    Done,
    Full,
    Stopped,
}

/// How every part is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HealthResponse")]
pub struct Report<'a> {
    status: OverallWire,
    /// Status of each dependent service
    services: BTreeMap<&'a str, Service<'a>>,
    #[schemars(extend("format" = "date-time"))]
    timestamp: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum OverallWire {
    Healthy,
    Degraded,
    Unhealthy,
}

/// Status of a single service.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServiceStatus")]
struct Service<'a> {
    status: StateWire,
    /// How long it took to tell, if it was asked just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum StateWire {
    Up,
    Degraded,
    Down,
}

/// A state in one word, for orchestrators.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "State")]
pub struct OneWord {
    /// `live` or `stopping`
    status: &'static str,
}

/// The answer to `GET /health/live`.
pub fn live() -> Vec<u8> {
    json::reply(&OneWord { status: "live" })
}

/// The answer to `GET /health/ready` while no prompts are taken.
pub fn stopping() -> Vec<u8> {
    json::reply(&OneWord { status: "stopping" })
}

/// The answer to `GET /health/ready` while prompts are taken: also who is not at their best, what providers keep of
/// the passages that they have read, and how far they are with those that they read ahead.
pub fn ready(parts: &BTreeMap<String, Part>, standings: &BTreeMap<String, ProviderStatus>) -> Vec<u8> {
    let service = |part| Service { latency_ms: None, ..service(part) };
    let services = parts.iter().map(|(name, part)| (&**name, service(part))).collect();
    let kept = standings.iter().filter_map(|(name, standing)| Some((&**name, kept(standing.prefix_cache?))));
    let ahead =
        standings.iter().filter_map(|(name, standing)| Some((&**name, ahead(standing.warmup.as_ref()?))));
    let (kept_passages, reading_ahead) = (kept.collect(), ahead.collect());
    json::reply(&Ready { status: "ready", services, kept_passages, reading_ahead })
}

fn kept(kept: PrefixCacheStats) -> Kept {
    let PrefixCacheStats { hits, misses, memory_bytes, disk_bytes, pending } = kept;
    Kept { hits, misses, memory_bytes, disk_bytes, unread: pending }
}

fn ahead(ahead: &WarmupProgress) -> Ahead<'_> {
    let WarmupProgress { done, total, prefilled, paused } = ahead;
    let state = match paused {
        _ if done >= total => AheadWire::Done,
        Some(_) => AheadWire::Waiting,
        None => AheadWire::Reading,
    };
    Ahead { state, message: paused.as_deref(), passages: *done, read: *prefilled }
}

/// The answer to `GET /health`.
pub fn report(overall: Overall, parts: &BTreeMap<String, Part>, at: Timestamp) -> Vec<u8> {
    let status = match overall {
        Overall::Healthy => OverallWire::Healthy,
        Overall::Degraded => OverallWire::Degraded,
        Overall::Unhealthy => OverallWire::Unhealthy,
    };
    let services = parts.iter().map(|(name, part)| (&**name, service(part))).collect();
    json::reply(&Report { status, services, timestamp: at.to_string() })
}

fn service(part: &Part) -> Service<'_> {
    let (status, message) = match &part.state {
        State::Up => (StateWire::Up, None),
        State::Degraded(why) => (StateWire::Degraded, Some(&**why)),
        State::Down(why) => (StateWire::Down, Some(&**why)),
    };
    let latency_ms = part.latency.map(|latency| (latency.as_secs_f64() * 1e5).round() / 100.0);
    Service { status, latency_ms, message }
}
