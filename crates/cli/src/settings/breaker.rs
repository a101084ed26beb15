//! Settings of breakers: when a provider that fails is left alone, and for how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checks::{Checks, SOME_TIME, in_seconds};

/// `[breaker]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BreakerSettings {
    /// So many failures in a row are too many.
    pub(crate) failures_in_a_row: usize,
    /// So is this share of failures among the newest requests,
    pub(crate) failure_share: f64,
    /// of which so many are looked at,
    pub(crate) window_requests: usize,
    /// if there are at least so many
    pub(crate) window_least: usize,
    /// that ended within this time.
    #[serde(rename = "window_seconds", serialize_with = "in_seconds")]
    pub(crate) window: Duration,
    /// How long a provider is left alone.
    #[serde(rename = "open_seconds", serialize_with = "in_seconds")]
    pub(crate) open: Duration,
}

/// `[breaker]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedBreaker {
    failures_in_a_row: u64,
    failure_share: f64,
    window_requests: u64,
    window_least: u64,
    window_seconds: f64,
    open_seconds: f64,
}

impl Default for TypedBreaker {
    fn default() -> Self {
        Self {
            failures_in_a_row: 5,
            failure_share: 0.5,
            window_requests: 20,
            window_least: 10,
            window_seconds: 60.0,
            open_seconds: 30.0,
        }
    }
}

impl TypedBreaker {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> BreakerSettings {
        if self.window_least > self.window_requests {
            let message = format!(
                "{} requests are never looked at with window_requests = {}; allowed is that number or a smaller one",
                self.window_least, self.window_requests
            );
            checks.refuse("breaker.window_least", message);
        }
        let mut number = |key, value| checks.number(&format!("breaker.{key}"), value, 1..=10_000);
        BreakerSettings {
            failures_in_a_row: number("failures_in_a_row", self.failures_in_a_row),
            window_requests: number("window_requests", self.window_requests),
            window_least: number("window_least", self.window_least),
            failure_share: checks.decimal("breaker.failure_share", self.failure_share, 0.01..=1.0),
            window: checks.seconds("breaker.window_seconds", self.window_seconds, SOME_TIME),
            open: checks.seconds("breaker.open_seconds", self.open_seconds, SOME_TIME),
        }
    }
}
