//! The counters of the rate limit: a token bucket for each client address, which refills evenly over a
//! minute. A bucket is stored as the time at which it will be full, so one that is full needs no entry, and a
//! flood of addresses is bounded by dropping the older generation of entries.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time in which an empty bucket refills.
const MINUTE: Duration = Duration::from_secs(60);

/// Upper bound on the addresses of one generation; there are two.
const GENERATION_ADDRESSES: usize = 50_000;

/// Limits the requests of each client address.
pub(crate) struct RateLimiter {
    per_minute: u32,
    buckets: Mutex<Buckets>,
}

/// When the bucket of each address will be full. The older generation is dropped after a minute, when all its
/// buckets are full; earlier only where the newer one exceeds its bound.
struct Buckets {
    newer: HashMap<IpAddr, Instant>,
    older: HashMap<IpAddr, Instant>,
    rotated_at: Instant,
}

/// What a client may send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Requests in a minute.
    pub(crate) limit: u32,
    /// Requests that it may send at once.
    pub(crate) remaining: u32,
    /// Time until it may send all of them again.
    pub(crate) full_in: Duration,
    /// Time until it may send one, if it may not now.
    pub(crate) wait: Option<Duration>,
}

impl RateLimiter {
    /// A limiter, or `None` where 0 requests mean no limit.
    pub(crate) fn new(per_minute: u32) -> Option<Self> {
        let buckets = Buckets { newer: HashMap::new(), older: HashMap::new(), rotated_at: Instant::now() };
        (per_minute > 0).then(|| Self { per_minute, buckets: Mutex::new(buckets) })
    }

    /// Counts a request of this client, unless it exceeds the limit.
    pub(crate) fn take(&self, client: IpAddr) -> Allowance {
        let (mut buckets, now) = self.lock_now();
        let full_at = buckets.full_at(client, now);
        let taken = full_at + MINUTE / self.per_minute;
        if taken > now + MINUTE {
            return Allowance { wait: Some(taken - now - MINUTE), ..self.allowance(full_at, now) };
        }
        buckets.set(client, taken, now);
        self.allowance(taken, now)
    }

    /// What this client may send, without counting a request.
    pub(crate) fn peek(&self, client: IpAddr) -> Allowance {
        let (buckets, now) = self.lock_now();
        self.allowance(buckets.full_at(client, now), now)
    }

    fn allowance(&self, full_at: Instant, now: Instant) -> Allowance {
        let full_in = full_at - now;
        let remaining = (MINUTE - full_in).as_nanos() / (MINUTE / self.per_minute).as_nanos();
        let remaining = u32::try_from(remaining).unwrap_or(u32::MAX).min(self.per_minute);
        Allowance { limit: self.per_minute, remaining, full_in, wait: None }
    }

    /// The buckets and the time. The time is read after locking: it must not be earlier than any stored time,
    /// or an address that sends over several connections at once could exceed its limit.
    ///
    /// No change of the buckets can panic halfway, so a poisoned lock is still good.
    fn lock_now(&self) -> (MutexGuard<'_, Buckets>, Instant) {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        (buckets, Instant::now())
    }
}

impl Buckets {
    fn full_at(&self, client: IpAddr, now: Instant) -> Instant {
        let stored = self.newer.get(&client).or_else(|| self.older.get(&client));
        stored.map_or(now, |full_at| now.max(*full_at))
    }

    fn set(&mut self, client: IpAddr, full_at: Instant, now: Instant) {
        if self.newer.len() >= GENERATION_ADDRESSES || now - self.rotated_at >= MINUTE {
            self.older = std::mem::take(&mut self.newer);
            self.rotated_at = now;
        }
        self.newer.insert(client, full_at);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::time::advance;

    use super::*;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_bucket_may_be_spent_at_once_and_refills_evenly() {
        let limiter = RateLimiter::new(6).unwrap();
        for remaining in (0..6).rev() {
            let allowance = limiter.take(address(1));
            assert_eq!((allowance.remaining, allowance.wait), (remaining, None));
        }
        let refused = limiter.take(address(1));
        assert_eq!((refused.remaining, refused.wait), (0, Some(Duration::from_secs(10))));
        assert_eq!(refused.full_in, Duration::from_secs(60));
        assert_eq!(limiter.take(address(2)).remaining, 5, "others have their own");

        advance(Duration::from_secs(10)).await;
        assert_eq!(limiter.peek(address(1)).remaining, 1);
        assert_eq!(limiter.take(address(1)).wait, None);
        assert_eq!(limiter.take(address(1)).wait, Some(Duration::from_secs(10)));
        advance(Duration::from_secs(60)).await;
        assert_eq!(limiter.peek(address(1)), limiter.peek(address(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_does_not_divide_a_minute_is_exact() {
        for per_minute in [1, 7, 59, 61, 999_999] {
            let limiter = RateLimiter::new(per_minute).unwrap();
            let allowed =
                (0..per_minute.min(1_000)).filter(|_| limiter.take(address(1)).wait.is_none()).count();
            assert_eq!(u32::try_from(allowed), Ok(per_minute.min(1_000)));
        }
        assert!(RateLimiter::new(0).is_none());
    }

    /// In real time and on all cores, so that one thread reads the time while another stores its own.
    #[test]
    fn concurrent_requests_of_one_address_stay_within_its_limit() {
        let (limiter, began) = (RateLimiter::new(1_000).unwrap(), Instant::now());
        let allowed: usize = std::thread::scope(|scope| {
            let send = || (0..20_000).filter(|_| limiter.take(address(1)).wait.is_none()).count();
            let senders: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
            senders.into_iter().map(|sender| sender.join().expect("a sender does not panic")).sum()
        });
        let refilled = began.elapsed().div_duration_f64(MINUTE / 1_000);
        assert!((1_000.0..=1_001.0 + refilled).contains(&(allowed as f64)), "{allowed}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_is_not_full_is_kept() {
        let limiter = RateLimiter::new(1).unwrap();
        assert_eq!(limiter.take(address(0)).wait, None);
        for number in 1..120 {
            advance(Duration::from_millis(500)).await;
            limiter.take(address(number));
            assert!(limiter.take(address(0)).wait.is_some(), "after {number} half seconds");
        }
        advance(Duration::from_millis(500)).await;
        assert_eq!(limiter.take(address(0)).wait, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_addresses_is_bounded() {
        let limiter = RateLimiter::new(1).unwrap();
        for number in (0..).take(3 * GENERATION_ADDRESSES) {
            limiter.take(address(number));
        }
        let (buckets, _) = limiter.lock_now();
        assert!(buckets.newer.len() <= GENERATION_ADDRESSES && buckets.older.len() <= GENERATION_ADDRESSES);
    }
}
