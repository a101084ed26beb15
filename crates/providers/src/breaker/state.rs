//! When a provider is asked and when it is left alone. Pure: the time comes in from outside.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// What opens a breaker, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerRules {
    /// So many failures in a row open it.
    pub consecutive: usize,
    /// So does this share of failures among the newest requests: 0.5 is half of them.
    pub share: f64,
    /// So many requests are looked at for that, at most,
    pub window: usize,
    /// and at least,
    pub least: usize,
    /// and only those that ended within this time.
    pub within: Duration,
    /// How long it stays open. Then one request is let through, to see whether it is answered.
    pub open: Duration,
}

impl Default for BreakerRules {
    fn default() -> Self {
        let (within, open) = (Duration::from_secs(60), Duration::from_secs(30));
        Self { consecutive: 5, share: 0.5, window: 20, least: 10, within, open }
    }
}

/// A breaker: what was heard of a provider, and what follows from it.
#[derive(Debug)]
pub(super) struct State {
    rules: BreakerRules,
    phase: Phase,
    /// Counts the openings. What was asked before one says nothing about the time after it.
    epoch: u64,
    /// The provider itself wants to be left alone until then.
    not_before: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    Closed(Recent),
    Open {
        until: Instant,
    },
    /// One request is on its way, and nobody else is let through before it is answered.
    Probing,
}

/// A request that was let through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    epoch: u64,
}

/// Why a request is not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// It failed too often. It is tried again after this time.
    Open(Duration),
    /// It failed too often, and a request is on its way that tries it again.
    Probing,
    /// It wants to be left alone for this time.
    Asked(Duration),
}

/// What is heard of a request that was let through: perhaps that it is being answered, then how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Answers,
    Succeeded,
    Failed,
    /// It ended in a way that says nothing about the provider.
    Nothing,
}

/// What became of the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Opened,
    Closed,
}

impl State {
    pub(super) fn new(rules: BreakerRules) -> Self {
        Self { rules, phase: Phase::Closed(Recent::default()), epoch: 0, not_before: None }
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Closed(_))
    }

    /// Why a request would not be let through now, if it would not.
    pub(super) fn skip(&self, now: Instant) -> Option<Skip> {
        let before = |then: Instant| then.checked_duration_since(now).filter(|wait| !wait.is_zero());
        let asked = self.not_before.and_then(before);
        match self.phase {
            Phase::Closed(_) => asked.map(Skip::Asked),
            Phase::Open { until } => match (before(until), asked) {
                (Some(open), Some(asked)) if asked > open => Some(Skip::Asked(asked)),
                (Some(open), _) => Some(Skip::Open(open)),
                (None, asked) => asked.map(Skip::Asked),
            },
            Phase::Probing => Some(Skip::Probing),
        }
    }

    /// Lets a request through, or not.
    pub(super) fn ask(&mut self, now: Instant) -> Result<Ticket, Skip> {
        if let Some(skip) = self.skip(now) {
            return Err(skip);
        }
        if let Phase::Open { .. } = self.phase {
            self.phase = Phase::Probing;
        }
        Ok(Ticket { epoch: self.epoch })
    }

    /// Hears of a request. The probe closes the breaker as soon as it is being answered, since others would be
    /// answered too; how it ends counts like any other.
    pub(super) fn hear(&mut self, ticket: Ticket, verdict: Verdict, now: Instant) -> Option<Change> {
        if ticket.epoch != self.epoch {
            return None;
        }
        match (&mut self.phase, verdict) {
            (Phase::Closed(recent), Verdict::Succeeded | Verdict::Failed) => {
                let failed = verdict == Verdict::Failed;
                recent.add(failed, now, &self.rules);
                (failed && recent.is_too_much(&self.rules)).then(|| self.open(now))
            }
            (Phase::Probing, Verdict::Answers | Verdict::Succeeded) => {
                self.phase = Phase::Closed(Recent::default());
                Some(Change::Closed)
            }
            (Phase::Probing, Verdict::Failed) => Some(self.open(now)),
            (Phase::Probing, Verdict::Nothing) => {
                self.phase = Phase::Open { until: now };
                None
            }
            (Phase::Closed(_), Verdict::Answers | Verdict::Nothing) | (Phase::Open { .. }, _) => None,
        }
    }

    /// The provider wants to be left alone until then.
    pub(super) fn leave_alone(&mut self, until: Instant) {
        self.not_before = self.not_before.max(Some(until));
    }

    fn open(&mut self, now: Instant) -> Change {
        self.phase = Phase::Open { until: now + self.rules.open };
        self.epoch += 1;
        Change::Opened
    }
}

/// How the newest requests ended.
#[derive(Debug, Default)]
struct Recent {
    failures_in_a_row: usize,
    ends: VecDeque<(Instant, bool)>,
}

impl Recent {
    fn add(&mut self, failed: bool, now: Instant, rules: &BreakerRules) {
        self.failures_in_a_row = if failed { self.failures_in_a_row + 1 } else { 0 };
        self.ends.push_back((now, failed));
        let is_old = |&(at, _): &(Instant, bool)| now.duration_since(at) > rules.within;
        while self.ends.len() > rules.window || self.ends.front().is_some_and(is_old) {
            self.ends.pop_front();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody looks at 2^52 requests")]
    fn is_too_much(&self, rules: &BreakerRules) -> bool {
        let failures = self.ends.iter().filter(|&&(_, failed)| failed).count();
        let share = failures as f64 / self.ends.len() as f64;
        self.failures_in_a_row >= rules.consecutive || self.ends.len() >= rules.least && share >= rules.share
    }
}

#[cfg(test)]
mod tests;
