//! Who is to act on a connection, the client or the server, and since when. Timers are not reset by every byte: one
//! of them fires, looks here, and goes on from there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Patience;

/// How one connection gets on.
pub(super) struct Pace {
    state: Mutex<State>,
}

struct State {
    turn: Turn,
    since: Instant,
    /// Since when nothing can be written because the client does not read.
    unread_since: Option<Instant>,
    given_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// A request may come.
    Idle,
    /// A request has begun to come.
    Head,
    /// It is the server's.
    Answering,
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The next request.
    Idle,
    /// The rest of a request's head.
    Head,
    /// Reading what was sent.
    Unread,
}

impl Pace {
    pub(super) fn new() -> Self {
        let state = State { turn: Turn::Idle, since: Instant::now(), unread_since: None, given_up: false };
        Self { state: Mutex::new(state) }
    }

    /// Some bytes came.
    pub(super) fn read(&self) {
        let mut state = self.state();
        if state.turn == Turn::Idle {
            state.turn = Turn::Head;
            state.since = Instant::now();
        }
    }

    /// Bytes were written, or could not be.
    pub(super) fn wrote(&self, done: bool) {
        let mut state = self.state();
        match (done, state.unread_since) {
            (true, Some(_)) => {
                state.unread_since = None;
                if state.turn == Turn::Idle {
                    // The rest of an answer goes out: its client is reading, and has not been idle.
                    state.since = Instant::now();
                }
            }
            (false, None) => state.unread_since = Some(Instant::now()),
            _ => {}
        }
    }

    /// It is the server's turn, until what is given is dropped.
    pub(super) fn answer(self: &Arc<Self>) -> Answering {
        self.state().turn = Turn::Answering;
        Answering(self.clone())
    }

    /// When to look again; or what took too long.
    pub(super) fn look(&self, patience: &Patience) -> Result<Instant, Overdue> {
        let (state, now) = (self.state(), Instant::now());
        let Patience { head, idle, unread, .. } = *patience;
        // Whatever begins right after this look is looked at in time.
        let mut again = now + head.min(idle).min(unread);
        let mut check = |since: Instant, patience: Duration, overdue| {
            let due = since + patience;
            again = again.min(due);
            if due <= now { Err(overdue) } else { Ok(()) }
        };
        if let Some(since) = state.unread_since {
            check(since, unread, Overdue::Unread)?;
        }
        match state.turn {
            // What it was sent may still be on its way out.
            Turn::Idle if state.unread_since.is_none() => check(state.since, idle, Overdue::Idle)?,
            Turn::Head => check(state.since, head, Overdue::Head)?,
            Turn::Idle | Turn::Answering => {}
        }
        Ok(again)
    }

    /// Nobody waits for the client any more, and what it was to be sent is thrown away.
    pub(super) fn give_up(&self) {
        self.state().given_up = true;
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.state().given_up
    }

    /// Every change of the state is whole before anything can panic, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server's turn.
pub(super) struct Answering(Arc<Pace>);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.turn = Turn::Idle;
        state.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const PATIENCE: Patience = Patience {
        connections: 1,
        head: Duration::from_secs(30),
        idle: Duration::from_secs(75),
        unread: Duration::from_secs(20),
    };

    /// Looks whenever it is told to, until something takes too long, and tells after how many seconds that was.
    async fn overdue(pace: &Pace, within: u64) -> Option<(Overdue, u64)> {
        let began = Instant::now();
        loop {
            let again = match pace.look(&PATIENCE) {
                Ok(again) => again,
                Err(overdue) => return Some((overdue, began.elapsed().as_secs())),
            };
            if again > began + Duration::from_secs(within) {
                return None;
            }
            advance(again - Instant::now()).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_idle_for_longer_than_a_head_may_take() {
        let pace = Arc::new(Pace::new());
        assert_eq!(overdue(&pace, 200).await, Some((Overdue::Idle, 75)));
        let pace = Arc::new(Pace::new());
        assert_eq!(overdue(&pace, 60).await, None);
        pace.read();
        assert_eq!(overdue(&pace, 200).await, Some((Overdue::Head, 30)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_takes_as_long_as_it_takes_while_its_client_reads() {
        let pace = Arc::new(Pace::new());
        pace.read();
        let answering = pace.answer();
        pace.read();
        pace.wrote(false);
        assert_eq!(overdue(&pace, 10).await, None);
        pace.wrote(true);
        assert_eq!(overdue(&pace, 10_000).await, None);
        pace.wrote(false);
        assert_eq!(overdue(&pace, 200).await, Some((Overdue::Unread, 20)));
        pace.wrote(true);
        drop(answering);
        assert_eq!(overdue(&pace, 200).await, Some((Overdue::Idle, 75)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_the_rest_of_its_answer_is_not_idle() {
        let pace = Arc::new(Pace::new());
        drop(pace.answer());
        for _ in 0..10 {
            pace.wrote(false);
            assert_eq!(overdue(&pace, 15).await, None);
            pace.wrote(true);
        }
        assert_eq!(overdue(&pace, 200).await, Some((Overdue::Idle, 75)));
    }
}
