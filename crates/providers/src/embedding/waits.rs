//! Whether a call that failed is tried again, and when. Only failures that pass by themselves are: no
//! connection, 429, 5xx.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use domain::{EmbeddingPriority, Failure, FailureKind};
use tokio::time::Instant;

use super::settings::Retries;

/// How patient a call is.
#[derive(Clone, Copy)]
struct Patience {
    retries: Retries,
    first_wait: Duration,
    longest_wait: Duration,
}

/// Somebody looks at the screen meanwhile.
const QUERY: Patience = Patience {
    retries: Retries { attempts: 2, within: Duration::from_secs(10) },
    first_wait: Duration::from_millis(200),
    longest_wait: Duration::from_secs(1),
};

/// The waits of one call.
pub(super) struct Waits {
    patience: Patience,
    began: Instant,
    failures: u32,
}

impl Waits {
    /// For a call that begins now. `retries` bounds what nobody in particular waits for.
    pub(super) fn new(priority: EmbeddingPriority, retries: Retries) -> Self {
        let patience = match priority {
            EmbeddingPriority::Interactive => QUERY,
            EmbeddingPriority::Bulk => {
                Patience { retries, first_wait: Duration::from_millis(500), longest_wait: retries.within }
            }
        };
        Self { patience, began: Instant::now(), failures: 0 }
    }

    /// How long to wait before the next attempt; none if there should be none. A server that names a time
    /// beyond our patience is not asked before it.
    pub(super) fn after(&mut self, failure: &Failure) -> Option<Duration> {
        self.failures += 1;
        let Patience { retries, longest_wait, .. } = self.patience;
        if failure.kind != FailureKind::Unavailable || self.failures >= retries.attempts {
            return None;
        }
        let wait = failure.retry_after.unwrap_or_else(|| self.growing());
        let is_in_time = wait <= longest_wait && self.began.elapsed() + wait <= retries.within;
        is_in_time.then_some(wait)
    }

    /// Twice as long each time, less a random part of up to a half: clients that were turned away together
    /// shall not come back together.
    fn growing(&self) -> Duration {
        let doubled = self.patience.first_wait * 2_u32.saturating_pow(self.failures - 1);
        doubled.min(self.patience.longest_wait).mul_f64(1.0 - random_fraction() / 2.0)
    }
}

/// From 0 to 1. The standard library seeds its hashers at random, and nothing here needs better.
fn random_fraction() -> f64 {
    f64::from(u16::try_from(RandomState::new().hash_one(()) >> 48).unwrap_or_default()) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRIES: Retries = Retries { attempts: 4, within: Duration::from_secs(60) };

    fn unavailable(retry_after: Option<u64>) -> Failure {
        let retry_after = retry_after.map(Duration::from_secs);
        Failure { retry_after, ..Failure::new(FailureKind::Unavailable, "busy") }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_and_end() {
        let mut waits = Waits::new(EmbeddingPriority::Bulk, RETRIES);
        for doubled in [500, 1000, 2000] {
            let wait = waits.after(&unavailable(None)).unwrap();
            let range = Duration::from_millis(doubled / 2)..=Duration::from_millis(doubled);
            assert!(range.contains(&wait), "{wait:?} in {range:?}");
        }
        assert_eq!(waits.after(&unavailable(None)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_the_server_names_is_kept_to() {
        let mut waits = Waits::new(EmbeddingPriority::Bulk, RETRIES);
        assert_eq!(waits.after(&unavailable(Some(7))), Some(Duration::from_secs(7)));
        assert_eq!(waits.after(&unavailable(Some(0))), Some(Duration::ZERO));
        assert_eq!(waits.after(&unavailable(Some(61))), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempt_begins_after_its_time() {
        let mut waits = Waits::new(EmbeddingPriority::Bulk, RETRIES);
        tokio::time::advance(Duration::from_secs(58)).await;
        assert_eq!(waits.after(&unavailable(Some(2))), Some(Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(waits.after(&unavailable(None)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_is_tried_once_more_and_soon() {
        let mut waits = Waits::new(EmbeddingPriority::Interactive, RETRIES);
        assert!(waits.after(&unavailable(None)).unwrap() <= Duration::from_millis(200));
        assert_eq!(waits.after(&unavailable(None)), None);
        assert_eq!(Waits::new(EmbeddingPriority::Interactive, RETRIES).after(&unavailable(Some(2))), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_by_itself_is_not_tried_again() {
        for kind in [FailureKind::Refused, FailureKind::TooLong, FailureKind::Internal] {
            assert_eq!(
                Waits::new(EmbeddingPriority::Bulk, RETRIES).after(&Failure::new(kind, "no")),
                None,
                "{kind:?}"
            );
        }
    }
}
