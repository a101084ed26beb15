//! The breaker's shared state: admits requests, records how they end, and explains why one is blocked.

use std::sync::{Arc, Mutex, MutexGuard};

use domain::{Failure, FailureKind, ProviderStatus};
use tokio::time::Instant;

use super::state::{Block, BreakerRules, BreakerState, Permit, RequestOutcome, Transition};

/// The state of one provider's breaker, shared with the answers under way.
pub(super) struct Tracker {
    provider: Arc<str>,
    tracked: Mutex<Tracked>,
}

struct Tracked {
    state: BreakerState,
    /// Why the last request failed; none after a success.
    last_failure: Option<Failure>,
}

impl Tracker {
    pub(super) fn new(provider: Arc<str>, rules: BreakerRules) -> Self {
        let tracked = Tracked { state: BreakerState::new(rules), last_failure: None };
        Self { provider, tracked: Mutex::new(tracked) }
    }

    /// Lets a request through, or fails with the reason why not.
    pub(super) fn admit(&self) -> Result<Permit, Failure> {
        let mut tracked = self.tracked();
        tracked.state.admit(Instant::now()).map_err(|block| tracked.explain(block))
    }

    /// The failure that a request would get now, if it would be blocked.
    pub(super) fn blocked(&self) -> Option<Failure> {
        let tracked = self.tracked();
        tracked.state.blocked(Instant::now()).map(|block| tracked.explain(block))
    }

    /// Adds the breaker's part to the provider's own status.
    pub(super) fn status(&self, own: ProviderStatus) -> ProviderStatus {
        let tracked = self.tracked();
        let skipped_for = match tracked.state.blocked(Instant::now()) {
            Some(Block::Open(wait) | Block::RetryAfter(wait)) => Some(wait),
            Some(Block::Probing) | None => None,
        };
        let (breaker_open, last_failure) = (tracked.state.is_open(), tracked.last_failure.clone());
        ProviderStatus { breaker_open, skipped_for, last_failure, ..own }
    }

    /// Records how a request goes, or went.
    pub(super) fn record(&self, permit: Permit, outcome: RequestOutcome) {
        let mut tracked = self.tracked();
        if outcome == RequestOutcome::Succeeded {
            tracked.last_failure = None;
        }
        if tracked.state.record(permit, outcome, Instant::now()) == Some(Transition::Closed) {
            tracing::info!(provider = %self.provider, "a provider answers again; its circuit breaker closes");
        }
    }

    /// Records a request that failed, and any pause that the server asked for.
    pub(super) fn record_failure(&self, permit: Permit, failure: &Failure) {
        let now = Instant::now();
        let mut tracked = self.tracked();
        tracked.last_failure = Some(failure.clone());
        // The `retry_after` of a full queue in this process is a hint for clients: the queue empties by itself.
        if let Some(pause) = failure.retry_after.filter(|_| failure.kind != FailureKind::Overloaded) {
            tracked.state.block_until(now + pause);
        }
        let counts = failure.kind.counts_for_breaker();
        let outcome = if counts { RequestOutcome::Failed } else { RequestOutcome::Neutral };
        if tracked.state.record(permit, outcome, now) == Some(Transition::Opened) {
            tracing::warn!(provider = %self.provider, reason = %failure, "a provider fails too often; its circuit breaker opens");
        }
    }

    fn tracked(&self) -> MutexGuard<'_, Tracked> {
        self.tracked.lock().expect("nothing can panic while an outcome is recorded")
    }
}

impl Tracked {
    /// The failure of a request that is not let through.
    fn explain(&self, block: Block) -> Failure {
        let (why, wait) = match block {
            Block::Open(wait) => ("not asked because it failed too often", Some(wait)),
            Block::Probing => ("not asked because it failed too often and a probe request is running", None),
            Block::RetryAfter(wait) => ("not asked because its server requested a pause", Some(wait)),
        };
        let mut message = why.to_owned();
        if let Some(wait) = wait {
            message = format!("{message}; next attempt in {} s", wait.as_secs_f64().ceil());
        }
        if let Some(last) = &self.last_failure {
            message = format!("{message} (last failure: {last})");
        }
        Failure { retry_after: wait, ..Failure::new(FailureKind::Unavailable, message) }
    }
}
