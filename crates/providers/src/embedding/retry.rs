//! Retries of embedding calls: exponential backoff with jitter. Only transient failures are retried: no connection, 429,
//! 5xx.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use domain::{EmbeddingPriority, Failure, FailureKind};
use tokio::time::Instant;

use super::settings::RetryLimits;

/// The schedule of one call's retries.
#[derive(Clone, Copy)]
struct RetrySchedule {
    limits: RetryLimits,
    first_wait: Duration,
    max_wait: Duration,
}

/// Interactive calls: a user waits for the answer meanwhile.
const INTERACTIVE: RetrySchedule = RetrySchedule {
    limits: RetryLimits { attempts: 2, within: Duration::from_secs(10) },
    first_wait: Duration::from_millis(200),
    max_wait: Duration::from_secs(1),
};

/// The backoff of one call.
pub(super) struct Backoff {
    schedule: RetrySchedule,
    began: Instant,
    failures: u32,
}

impl Backoff {
    /// Starts with a call. `bulk` limits the retries of bulk calls; interactive ones have limits of their own.
    pub(super) fn new(priority: EmbeddingPriority, bulk: RetryLimits) -> Self {
        let schedule = match priority {
            EmbeddingPriority::Interactive => INTERACTIVE,
            EmbeddingPriority::Bulk => {
                let first_wait = Duration::from_millis(500);
                RetrySchedule { limits: bulk, first_wait, max_wait: bulk.within }
            }
        };
        Self { schedule, began: Instant::now(), failures: 0 }
    }

    /// The wait before the next attempt; none if there is no further attempt. A `retry_after` beyond the limits is not
    /// shortened: the call fails.
    pub(super) fn next_wait(&mut self, failure: &Failure) -> Option<Duration> {
        self.failures += 1;
        let RetrySchedule { limits, max_wait, .. } = self.schedule;
        if failure.kind != FailureKind::Unavailable || self.failures >= limits.attempts {
            return None;
        }
        let wait = failure.retry_after.unwrap_or_else(|| self.exponential());
        let is_in_time = wait <= max_wait && self.began.elapsed() + wait <= limits.within;
        is_in_time.then_some(wait)
    }

    /// Doubles each time, less a random part of up to a half, so that clients rejected together do not retry together.
    fn exponential(&self) -> Duration {
        let doubled = self.schedule.first_wait * 2_u32.saturating_pow(self.failures - 1);
        doubled.min(self.schedule.max_wait).mul_f64(1.0 - random_fraction() / 2.0)
    }
}

/// A number from 0 to 1. The random seeds of the standard library's hashers are good enough for jitter.
fn random_fraction() -> f64 {
    f64::from(u16::try_from(RandomState::new().hash_one(()) >> 48).unwrap_or_default()) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRIES: RetryLimits = RetryLimits { attempts: 4, within: Duration::from_secs(60) };

    fn unavailable(retry_after: Option<u64>) -> Failure {
        let retry_after = retry_after.map(Duration::from_secs);
        Failure { retry_after, ..Failure::new(FailureKind::Unavailable, "busy") }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_and_end() {
        let mut backoff = Backoff::new(EmbeddingPriority::Bulk, RETRIES);
        for doubled in [500, 1000, 2000] {
            let wait = backoff.next_wait(&unavailable(None)).unwrap();
            let range = Duration::from_millis(doubled / 2)..=Duration::from_millis(doubled);
            assert!(range.contains(&wait), "{wait:?} in {range:?}");
        }
        assert_eq!(backoff.next_wait(&unavailable(None)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_after_within_the_limits_is_respected() {
        let mut backoff = Backoff::new(EmbeddingPriority::Bulk, RETRIES);
        assert_eq!(backoff.next_wait(&unavailable(Some(7))), Some(Duration::from_secs(7)));
        assert_eq!(backoff.next_wait(&unavailable(Some(0))), Some(Duration::ZERO));
        assert_eq!(backoff.next_wait(&unavailable(Some(61))), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempt_begins_after_the_time_limit() {
        let mut backoff = Backoff::new(EmbeddingPriority::Bulk, RETRIES);
        tokio::time::advance(Duration::from_secs(58)).await;
        assert_eq!(backoff.next_wait(&unavailable(Some(2))), Some(Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(backoff.next_wait(&unavailable(None)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_interactive_call_is_retried_once_and_soon() {
        let mut backoff = Backoff::new(EmbeddingPriority::Interactive, RETRIES);
        assert!(backoff.next_wait(&unavailable(None)).unwrap() <= Duration::from_millis(200));
        assert_eq!(backoff.next_wait(&unavailable(None)), None);
        assert_eq!(
            Backoff::new(EmbeddingPriority::Interactive, RETRIES).next_wait(&unavailable(Some(2))),
            None
        );
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_failures_are_not_retried() {
        for kind in [FailureKind::Refused, FailureKind::TooLong, FailureKind::Internal] {
            assert_eq!(
                Backoff::new(EmbeddingPriority::Bulk, RETRIES).next_wait(&Failure::new(kind, "no")),
                None,
                "{kind:?}"
            );
        }
    }
}
