//! `[breaker]`: when a failing provider is skipped, and for how long.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::validator::{Validator, in_seconds};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BreakerSettings {
    pub(crate) failures_in_a_row: usize,
    pub(crate) failure_share: f64,
    pub(crate) window_requests: usize,
    pub(crate) window_least: usize,
    #[serde(rename = "window_seconds", serialize_with = "in_seconds")]
    pub(crate) window: Duration,
    #[serde(rename = "open_seconds", serialize_with = "in_seconds")]
    pub(crate) open: Duration,
}

/// The circuit breaker of each provider. While it is open, the provider is skipped without being called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct BreakerTable {
    /// Consecutive failures that open the breaker.
    #[schemars(range(min = 1, max = 10_000))]
    failures_in_a_row: u64,
    /// Share of failures among the newest requests that opens the breaker.
    #[schemars(range(min = 0.01, max = 1))]
    failure_share: f64,
    /// How many of the newest requests `failure_share` is computed over.
    #[schemars(range(min = 1, max = 10_000))]
    window_requests: u64,
    /// The fewest requests that `failure_share` is computed over; at most `window_requests`.
    #[schemars(range(min = 1, max = 10_000))]
    window_least: u64,
    /// Requests that ended longer ago than this do not count for `failure_share`.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    window_seconds: f64,
    /// How long the breaker stays open before one request probes the provider. A provider that names a time
    /// (`Retry-After`) is skipped until then.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    open_seconds: f64,
}

impl Default for BreakerTable {
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

impl BreakerTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> BreakerSettings {
        if self.window_least > self.window_requests {
            let message = format!(
                "{} requests never fit into window_requests = {}; allowed is that number or a smaller one",
                self.window_least, self.window_requests
            );
            validator.reject("breaker.window_least", message);
        }
        BreakerSettings {
            failures_in_a_row: validator.number("breaker.failures_in_a_row", self.failures_in_a_row),
            failure_share: validator.decimal("breaker.failure_share", self.failure_share),
            window_requests: validator.number("breaker.window_requests", self.window_requests),
            window_least: validator.number("breaker.window_least", self.window_least),
            window: validator.seconds("breaker.window_seconds", self.window_seconds),
            open: validator.seconds("breaker.open_seconds", self.open_seconds),
        }
    }
}
