//! The timeouts of one connection: an idle one, one for the request head, and one for a client that does not
//! read.
//!
//! Bytes do not reset a timer. They update [`ConnectionTimer`], and the connection's single alarm, when it
//! fires, reads from it what is due and sleeps until the next possible deadline.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::ConnectionLimits;

/// What a connection waits for, and since when.
pub(super) struct ConnectionTimer {
    state: Mutex<TimerState>,
}

struct TimerState {
    phase: Phase,
    since: Instant,
    /// Since when nothing can be written because the client does not read.
    unread_since: Option<Instant>,
    aborted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for a request.
    Idle,
    /// Part of a request head has arrived.
    ReadingHead,
    /// The server is producing a response.
    Responding,
}

/// Which timeout has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeout {
    /// No further request arrived.
    Idle,
    /// The request head is incomplete.
    Head,
    /// The client does not read.
    Unread,
}

impl ConnectionTimer {
    pub(super) fn new() -> Self {
        let state =
            TimerState { phase: Phase::Idle, since: Instant::now(), unread_since: None, aborted: false };
        Self { state: Mutex::new(state) }
    }

    /// Notes that bytes arrived.
    pub(super) fn on_read(&self) {
        let mut state = self.state();
        if state.phase == Phase::Idle {
            state.phase = Phase::ReadingHead;
            state.since = Instant::now();
        }
    }

    /// Notes that bytes were written, or that the socket takes none.
    pub(super) fn on_write(&self, written: bool) {
        let mut state = self.state();
        match (written, state.unread_since) {
            (true, Some(_)) => {
                state.unread_since = None;
                if state.phase == Phase::Idle {
                    // The client is still reading the rest of a response, so it was not idle.
                    state.since = Instant::now();
                }
            }
            (false, None) => state.unread_since = Some(Instant::now()),
            _ => {}
        }
    }

    /// Starts the response phase, which lasts until the guard is dropped.
    pub(super) fn start_response(self: &Arc<Self>) -> ResponseGuard {
        self.state().phase = Phase::Responding;
        ResponseGuard(self.clone())
    }

    /// Returns when to check again, or the timeout that has passed.
    pub(super) fn check(&self, limits: &ConnectionLimits) -> Result<Instant, Timeout> {
        let (state, now) = (self.state(), Instant::now());
        let ConnectionLimits { head_timeout, idle_timeout, unread_timeout, .. } = *limits;
        // Early enough for any wait that begins right after this check.
        let mut next_check = now + head_timeout.min(idle_timeout).min(unread_timeout);
        let mut check = |since: Instant, limit: Duration, timeout| {
            let deadline = since + limit;
            next_check = next_check.min(deadline);
            if deadline <= now { Err(timeout) } else { Ok(()) }
        };
        if let Some(since) = state.unread_since {
            check(since, unread_timeout, Timeout::Unread)?;
        }
        match state.phase {
            // While a response is still being written, only the unread timeout applies.
            Phase::Idle if state.unread_since.is_none() => check(state.since, idle_timeout, Timeout::Idle)?,
            Phase::ReadingHead => check(state.since, head_timeout, Timeout::Head)?,
            Phase::Idle | Phase::Responding => {}
        }
        Ok(next_check)
    }

    /// Discards unsent bytes when the connection is closed.
    pub(super) fn abort(&self) {
        self.state().aborted = true;
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.state().aborted
    }

    /// No change of the state can panic halfway, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, TimerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a connection in its response phase.
pub(super) struct ResponseGuard(Arc<ConnectionTimer>);

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.phase = Phase::Idle;
        state.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        max: 1,
        head_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(75),
        unread_timeout: Duration::from_secs(20),
    };

    /// Checks whenever the timer asks for it. Returns the timeout and after how many seconds it came, or
    /// `None` if none came within this time.
    async fn timeout_within(timer: &ConnectionTimer, seconds: u64) -> Option<(Timeout, u64)> {
        let began = Instant::now();
        loop {
            let next_check = match timer.check(&LIMITS) {
                Ok(next_check) => next_check,
                Err(timeout) => return Some((timeout, began.elapsed().as_secs())),
            };
            if next_check > began + Duration::from_secs(seconds) {
                return None;
            }
            advance(next_check - Instant::now()).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_idle_and_the_head_timeout_are_separate() {
        let timer = Arc::new(ConnectionTimer::new());
        assert_eq!(timeout_within(&timer, 200).await, Some((Timeout::Idle, 75)));
        let timer = Arc::new(ConnectionTimer::new());
        assert_eq!(timeout_within(&timer, 60).await, None);
        timer.on_read();
        assert_eq!(timeout_within(&timer, 200).await, Some((Timeout::Head, 30)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_has_no_timeout_while_its_client_reads() {
        let timer = Arc::new(ConnectionTimer::new());
        timer.on_read();
        let responding = timer.start_response();
        timer.on_read();
        timer.on_write(false);
        assert_eq!(timeout_within(&timer, 10).await, None);
        timer.on_write(true);
        assert_eq!(timeout_within(&timer, 10_000).await, None);
        timer.on_write(false);
        assert_eq!(timeout_within(&timer, 200).await, Some((Timeout::Unread, 20)));
        timer.on_write(true);
        drop(responding);
        assert_eq!(timeout_within(&timer, 200).await, Some((Timeout::Idle, 75)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_the_rest_of_its_response_is_not_idle() {
        let timer = Arc::new(ConnectionTimer::new());
        drop(timer.start_response());
        for _ in 0..10 {
            timer.on_write(false);
            assert_eq!(timeout_within(&timer, 15).await, None);
            timer.on_write(true);
        }
        assert_eq!(timeout_within(&timer, 200).await, Some((Timeout::Idle, 75)));
    }
}
