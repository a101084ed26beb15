//! The breaker's state machine: closed, open, or probing. Pure: the caller passes the time.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerRules {
    /// Failures in a row that open it.
    pub failures_in_a_row: usize,
    /// Share of failures among the newest requests that opens it: 0.5 is half of them.
    pub failure_share: f64,
    /// Upper bound on the requests that the share is taken of.
    pub window_requests: usize,
    /// Lower bound on the requests that the share is taken of; with fewer it does not count.
    pub window_least: usize,
    /// Maximum age of the requests that the share is taken of.
    pub window: Duration,
    /// How long it stays open. Then one request is let through as a probe.
    pub open: Duration,
}

impl Default for BreakerRules {
    fn default() -> Self {
        Self {
            failures_in_a_row: 5,
            failure_share: 0.5,
            window_requests: 20,
            window_least: 10,
            window: Duration::from_secs(60),
            open: Duration::from_secs(30),
        }
    }
}

/// The state of one breaker.
#[derive(Debug)]
pub(super) struct BreakerState {
    rules: BreakerRules,
    phase: Phase,
    /// Number of openings. A request that was admitted before the last opening no longer counts.
    epoch: u64,
    /// End of the pause that the provider asked for.
    not_before: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    Closed(RecentOutcomes),
    Open {
        until: Instant,
    },
    /// One request is under way; all others are blocked until it is being answered.
    Probing,
}

/// A request that was let through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permit {
    epoch: u64,
}

/// Why a request is not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Too many failures; a probe is let through after this time.
    Open(Duration),
    /// Too many failures, and a probe is under way.
    Probing,
    /// The provider asked for a pause, which lasts this much longer.
    RetryAfter(Duration),
}

/// What is observed of a request: that it is being answered, then how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    Answering,
    Succeeded,
    Failed,
    /// It ended in a way that says nothing about the provider.
    Neutral,
}

/// A change of the breaker's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    Opened,
    Closed,
}

impl BreakerState {
    pub(super) fn new(rules: BreakerRules) -> Self {
        Self { rules, phase: Phase::Closed(RecentOutcomes::default()), epoch: 0, not_before: None }
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Closed(_))
    }

    /// Why a request would be blocked now, if it would.
    pub(super) fn blocked(&self, now: Instant) -> Option<Block> {
        let left = |until: Instant| until.checked_duration_since(now).filter(|wait| !wait.is_zero());
        let pause = self.not_before.and_then(left);
        match self.phase {
            Phase::Closed(_) => pause.map(Block::RetryAfter),
            Phase::Open { until } => match (left(until), pause) {
                (Some(open), Some(pause)) if pause > open => Some(Block::RetryAfter(pause)),
                (Some(open), _) => Some(Block::Open(open)),
                (None, pause) => pause.map(Block::RetryAfter),
            },
            Phase::Probing => Some(Block::Probing),
        }
    }

    /// Lets a request through, or not. The first one after an open phase is the probe.
    pub(super) fn admit(&mut self, now: Instant) -> Result<Permit, Block> {
        if let Some(block) = self.blocked(now) {
            return Err(block);
        }
        if let Phase::Open { .. } = self.phase {
            self.phase = Phase::Probing;
        }
        Ok(Permit { epoch: self.epoch })
    }

    /// Records what is observed of a request. The probe closes the breaker as soon as it is being answered, since other
    /// requests would be answered too; its end then counts like any other.
    pub(super) fn record(
        &mut self,
        permit: Permit,
        outcome: RequestOutcome,
        now: Instant,
    ) -> Option<Transition> {
        if permit.epoch != self.epoch {
            return None;
        }
        match (&mut self.phase, outcome) {
            (Phase::Closed(recent), RequestOutcome::Succeeded | RequestOutcome::Failed) => {
                let failed = outcome == RequestOutcome::Failed;
                recent.add(failed, now, &self.rules);
                (failed && recent.exceeds(&self.rules)).then(|| self.open(now))
            }
            (Phase::Probing, RequestOutcome::Answering | RequestOutcome::Succeeded) => {
                self.phase = Phase::Closed(RecentOutcomes::default());
                Some(Transition::Closed)
            }
            (Phase::Probing, RequestOutcome::Failed) => Some(self.open(now)),
            (Phase::Probing, RequestOutcome::Neutral) => {
                self.phase = Phase::Open { until: now };
                None
            }
            (Phase::Closed(_), RequestOutcome::Answering | RequestOutcome::Neutral)
            | (Phase::Open { .. }, _) => None,
        }
    }

    /// Blocks requests until then, whatever the phase. A pause never gets shorter.
    pub(super) fn block_until(&mut self, until: Instant) {
        self.not_before = self.not_before.max(Some(until));
    }

    fn open(&mut self, now: Instant) -> Transition {
        self.phase = Phase::Open { until: now + self.rules.open };
        self.epoch += 1;
        Transition::Opened
    }
}

/// How the newest requests ended.
#[derive(Debug, Default)]
struct RecentOutcomes {
    failures_in_a_row: usize,
    /// When each request ended, and whether it failed; oldest first.
    ends: VecDeque<(Instant, bool)>,
}

impl RecentOutcomes {
    fn add(&mut self, failed: bool, now: Instant, rules: &BreakerRules) {
        self.failures_in_a_row = if failed { self.failures_in_a_row + 1 } else { 0 };
        self.ends.push_back((now, failed));
        let is_old = |&(at, _): &(Instant, bool)| now.duration_since(at) > rules.window;
        while self.ends.len() > rules.window_requests || self.ends.front().is_some_and(is_old) {
            self.ends.pop_front();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a window has fewer than 2^52 requests")]
    fn exceeds(&self, rules: &BreakerRules) -> bool {
        let failures = self.ends.iter().filter(|&&(_, failed)| failed).count();
        let share = failures as f64 / self.ends.len() as f64;
        self.failures_in_a_row >= rules.failures_in_a_row
            || self.ends.len() >= rules.window_least && share >= rules.failure_share
    }
}

#[cfg(test)]
mod tests;
