//! How many requests a client may send. Each address has a minute's worth of them, which fills up again evenly; what
//! is kept is when it will be full. An address that was full again is forgotten, and so is a flood of addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// After this time without a request every address may send its whole minute's worth.
const MINUTE: Duration = Duration::from_secs(60);

/// So many addresses are known, twice: those of this while, and those of the one before.
const MOST_ADDRESSES: usize = 50_000;

/// Keeps count of requests.
pub(crate) struct Rate {
    per_minute: u32,
    known: Mutex<Known>,
}

/// When each address will have its whole minute's worth again. The older ones are thrown away after a minute, when
/// all of them have; sooner only if there are very many.
struct Known {
    newer: HashMap<IpAddr, Instant>,
    older: HashMap<IpAddr, Instant>,
    turned_at: Instant,
}

/// What a client may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Requests in a minute.
    pub(crate) limit: u32,
    /// Requests that it may send at once.
    pub(crate) remaining: u32,
    /// When it may send all of them again.
    pub(crate) full_in: Duration,
    /// When it may send one, if it may not now.
    pub(crate) wait: Option<Duration>,
}

impl Rate {
    /// None if there is no limit.
    pub(crate) fn new(per_minute: u32) -> Option<Self> {
        let known = Known { newer: HashMap::new(), older: HashMap::new(), turned_at: Instant::now() };
        (per_minute > 0).then(|| Self { per_minute, known: Mutex::new(known) })
    }

    /// Counts a request of this client, unless it may not send one.
    pub(crate) fn take(&self, client: IpAddr) -> Allowance {
        let (mut known, now) = self.known_now();
        let full_at = known.full_at(client, now);
        let taken = full_at + MINUTE / self.per_minute;
        if taken > now + MINUTE {
            return Allowance { wait: Some(taken - now - MINUTE), ..self.allowance(full_at, now) };
        }
        known.note(client, taken, now);
        self.allowance(taken, now)
    }

    /// What this client may do, without counting.
    pub(crate) fn look(&self, client: IpAddr) -> Allowance {
        let (known, now) = self.known_now();
        self.allowance(known.full_at(client, now), now)
    }

    fn allowance(&self, full_at: Instant, now: Instant) -> Allowance {
        let full_in = full_at - now;
        let remaining = (MINUTE - full_in).as_nanos() / (MINUTE / self.per_minute).as_nanos();
        let remaining = u32::try_from(remaining).unwrap_or(u32::MAX).min(self.per_minute);
        Allowance { limit: self.per_minute, remaining, full_in, wait: None }
    }

    /// What is known, and the time. The time is asked for last: it must not be earlier than any that was noted, or an
    /// address that sends from several connections at once would have spent more than its minute.
    ///
    /// Every change is whole before anything can panic, so a poisoned lock is still good.
    fn known_now(&self) -> (MutexGuard<'_, Known>, Instant) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        (known, Instant::now())
    }
}

impl Known {
    fn full_at(&self, client: IpAddr, now: Instant) -> Instant {
        let known = self.newer.get(&client).or_else(|| self.older.get(&client));
        known.map_or(now, |full_at| now.max(*full_at))
    }

    fn note(&mut self, client: IpAddr, full_at: Instant, now: Instant) {
        if self.newer.len() >= MOST_ADDRESSES || now - self.turned_at >= MINUTE {
            self.older = std::mem::take(&mut self.newer);
            self.turned_at = now;
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
    async fn a_minutes_worth_may_be_sent_at_once_and_comes_back_evenly() {
        let rate = Rate::new(6).unwrap();
        for remaining in (0..6).rev() {
            let allowance = rate.take(address(1));
            assert_eq!((allowance.remaining, allowance.wait), (remaining, None));
        }
        let refused = rate.take(address(1));
        assert_eq!((refused.remaining, refused.wait), (0, Some(Duration::from_secs(10))));
        assert_eq!(refused.full_in, Duration::from_secs(60));
        assert_eq!(rate.take(address(2)).remaining, 5, "others have their own");

        advance(Duration::from_secs(10)).await;
        assert_eq!(rate.look(address(1)).remaining, 1);
        assert_eq!(rate.take(address(1)).wait, None);
        assert_eq!(rate.take(address(1)).wait, Some(Duration::from_secs(10)));
        advance(Duration::from_secs(60)).await;
        assert_eq!(rate.look(address(1)), rate.look(address(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_number_that_does_not_divide_a_minute_is_allowed_all_the_same() {
        for per_minute in [1, 7, 59, 61, 999_999] {
            let rate = Rate::new(per_minute).unwrap();
            let allowed = (0..per_minute.min(1_000)).filter(|_| rate.take(address(1)).wait.is_none()).count();
            assert_eq!(u32::try_from(allowed), Ok(per_minute.min(1_000)));
        }
        assert!(Rate::new(0).is_none());
    }

    /// On real time and on all cores, where one asks while another is noted.
    #[test]
    fn an_address_may_send_from_many_connections_at_once() {
        let (rate, began) = (Rate::new(1_000).unwrap(), Instant::now());
        let allowed: usize = std::thread::scope(|scope| {
            let send = || (0..20_000).filter(|_| rate.take(address(1)).wait.is_none()).count();
            let senders: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
            senders.into_iter().map(|sender| sender.join().expect("nobody is dropped for it")).sum()
        });
        let came_back = began.elapsed().div_duration_f64(MINUTE / 1_000);
        assert!((1_000.0..=1_001.0 + came_back).contains(&(allowed as f64)), "{allowed}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_forgotten_who_is_not_full_again() {
        let rate = Rate::new(1).unwrap();
        assert_eq!(rate.take(address(0)).wait, None);
        for number in 1..120 {
            advance(Duration::from_millis(500)).await;
            rate.take(address(number));
            assert!(rate.take(address(0)).wait.is_some(), "after {number} half seconds");
        }
        advance(Duration::from_millis(500)).await;
        assert_eq!(rate.take(address(0)).wait, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_addresses_takes_no_more_memory() {
        let rate = Rate::new(1).unwrap();
        for number in (0..).take(3 * MOST_ADDRESSES) {
            rate.take(address(number));
        }
        let (known, _) = rate.known_now();
        assert!(known.newer.len() <= MOST_ADDRESSES && known.older.len() <= MOST_ADDRESSES);
    }
}
