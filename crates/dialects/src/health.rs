//! Health replies, for orchestrators and operators.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use domain::{PrefixCacheStats, ProviderStatus, Timestamp, WarmupPause, WarmupProgress};
use schemars::JsonSchema;
use serde::Serialize;

use crate::json;

/// Health of one service that the server depends on.
#[derive(Clone, Debug)]
pub struct ServiceHealth {
    /// Its state, with the reason if it is not up.
    pub state: ServiceState,
    /// Duration of the health check, if one ran for this reply.
    pub latency: Option<Duration>,
}

/// State of a service.
#[derive(Clone, Debug)]
pub enum ServiceState {
    /// It works.
    Up,
    /// The server works without it, or it will be up soon.
    Degraded(String),
    /// It does not work.
    Down(String),
}

/// Health of the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverallHealth {
    /// Every service is up.
    Healthy,
    /// Questions are answered, but not all of them as configured.
    Degraded,
    /// Questions are not answered.
    Unhealthy,
}

/// Readiness: the server accepts prompts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ready")]
pub struct ReadyReply<'a> {
    /// `ready`
    status: &'static str,
    /// Status of each service
    services: BTreeMap<&'a str, ServiceWire<'a>>,
    /// Prefix cache of each embedded provider
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    kept_passages: BTreeMap<&'a str, PrefixCacheWire>,
    /// Background prefill of the catalog's passages, of each embedded provider
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reading_ahead: BTreeMap<&'a str, WarmupWire<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct PrefixCacheWire {
    /// Cache hits: prefixes and passages that were cached when a prompt needed them
    hits: u64,
    /// Cache misses
    misses: u64,
    /// Size in memory
    memory_bytes: u64,
    /// Size on disk
    disk_bytes: u64,
    /// Passages queued for background prefill
    unread: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct WarmupWire<'a> {
    #[schemars(extend("enum" = WARMUP_STATES))]
    state: &'static str,
    /// The progress, or why no passage is prefilled now
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    /// Passages examined so far
    passages: u64,
    /// Passages that had to be prefilled; the others were cached already, or cannot be cached
    read: u64,
}

/// The states of a warm-up on the wire.
pub const WARMUP_STATES: [&str; 5] = ["waiting", "reading", "done", "full", "stopped"];

/// Health of the server and its services.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HealthResponse")]
pub struct HealthReport<'a> {
    status: OverallHealthWire,
    /// Status of each dependent service
    services: BTreeMap<&'a str, ServiceWire<'a>>,
    #[schemars(extend("format" = "date-time"))]
    timestamp: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum OverallHealthWire {
    Healthy,
    Degraded,
    Unhealthy,
}

/// Status of a single service.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServiceStatus")]
struct ServiceWire<'a> {
    status: ServiceStateWire,
    /// Time of the health check in milliseconds, if one ran for this reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum ServiceStateWire {
    Up,
    Degraded,
    Down,
}

/// Liveness in one word, for orchestrators.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "State")]
pub struct StatusReply {
    /// `live` or `stopping`
    status: &'static str,
}

/// The reply to `GET /health/live`.
pub fn live() -> Vec<u8> {
    json::reply(&StatusReply { status: "live" })
}

/// The reply to `GET /health/ready` while the server accepts no prompts.
pub fn stopping() -> Vec<u8> {
    json::reply(&StatusReply { status: "stopping" })
}

/// The reply to `GET /health/ready` while the server accepts prompts, with the prefix caches and warm-ups of providers.
pub fn ready(
    services: &BTreeMap<String, ServiceHealth>,
    providers: &BTreeMap<String, ProviderStatus>,
) -> Vec<u8> {
    let service = |health| ServiceWire { latency_ms: None, ..service(health) };
    let services = services.iter().map(|(name, health)| (&**name, service(health))).collect();
    let caches =
        providers.iter().filter_map(|(name, status)| Some((&**name, prefix_cache(status.prefix_cache?))));
    let warmups =
        providers.iter().filter_map(|(name, status)| Some((&**name, warmup(status.warmup.as_ref()?))));
    let (kept_passages, reading_ahead) = (caches.collect(), warmups.collect());
    json::reply(&ReadyReply { status: "ready", services, kept_passages, reading_ahead })
}

fn prefix_cache(stats: PrefixCacheStats) -> PrefixCacheWire {
    let PrefixCacheStats { hits, misses, memory_bytes, disk_bytes, pending } = stats;
    PrefixCacheWire { hits, misses, memory_bytes, disk_bytes, unread: pending }
}

fn warmup(progress: &WarmupProgress) -> WarmupWire<'_> {
    let WarmupProgress { done, total, prefilled, paused } = progress;
    let message = match paused {
        Some(WarmupPause::Retrying(why) | WarmupPause::Failed(why)) => Some(why.into()),
        Some(WarmupPause::CacheFull) => {
            Some(format!("{done} of {total} passages, then the prefix cache is full").into())
        }
        None if done < total => Some(format!("{done} of {total} passages").into()),
        None => None,
    };
    WarmupWire { state: warmup_state(progress), message, passages: *done, read: *prefilled }
}

/// The state of a warm-up, in one of [`WARMUP_STATES`].
pub fn warmup_state(progress: &WarmupProgress) -> &'static str {
    match &progress.paused {
        Some(WarmupPause::Retrying(_)) => "waiting",
        Some(WarmupPause::CacheFull) => "full",
        Some(WarmupPause::Failed(_)) => "stopped",
        None if progress.done < progress.total => "reading",
        None => "done",
    }
}

/// The reply to `GET /health`.
pub fn report(overall: OverallHealth, services: &BTreeMap<String, ServiceHealth>, at: Timestamp) -> Vec<u8> {
    let status = match overall {
        OverallHealth::Healthy => OverallHealthWire::Healthy,
        OverallHealth::Degraded => OverallHealthWire::Degraded,
        OverallHealth::Unhealthy => OverallHealthWire::Unhealthy,
    };
    let services = services.iter().map(|(name, health)| (&**name, service(health))).collect();
    json::reply(&HealthReport { status, services, timestamp: at.to_string() })
}

fn service(health: &ServiceHealth) -> ServiceWire<'_> {
    let (status, message) = match &health.state {
        ServiceState::Up => (ServiceStateWire::Up, None),
        ServiceState::Degraded(why) => (ServiceStateWire::Degraded, Some(&**why)),
        ServiceState::Down(why) => (ServiceStateWire::Down, Some(&**why)),
    };
    let latency_ms = health.latency.map(|latency| (latency.as_secs_f64() * 1e5).round() / 100.0);
    ServiceWire { status, latency_ms, message }
}
