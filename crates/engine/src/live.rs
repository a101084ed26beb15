//! A running prompt: its log, what its readers have at stake, and the way to stop it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{EndCause, Principal, PromptId, SessionId};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::log::Log;

/// A prompt while it runs on this node.
pub(crate) struct Live {
    pub(crate) prompt: PromptId,
    pub(crate) session: SessionId,
    pub(crate) who: Principal,
    /// How long it goes on when whoever reads it has left.
    pub(crate) lingering: Duration,
    pub(crate) log: Arc<Log>,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    readers: usize,
    /// When the last stake of those who left lapses.
    lapses_at: Instant,
    stop: Option<EndCause>,
}

impl Live {
    pub(crate) fn new(who: Principal, session: SessionId, prompt: PromptId, lingering: Duration) -> Self {
        let state = Mutex::new(State { readers: 0, lapses_at: Instant::now(), stop: None });
        Self { prompt, session, who, lingering, log: Arc::default(), state, changed: Notify::new() }
    }

    /// A stake in this prompt: it runs on while the stake is held, and `linger` longer. None if it is being
    /// abandoned already.
    pub(crate) fn stake(self: &Arc<Self>, linger: Duration) -> Option<Stake> {
        let mut state = self.state();
        if state.stop == Some(EndCause::Abandoned) {
            return None;
        }
        state.readers += 1;
        drop(state);
        self.changed.notify_waiters();
        Some(Stake { live: self.clone(), linger })
    }

    /// Stops the prompt; the first cause holds.
    pub(crate) fn stop(&self, cause: EndCause) {
        self.state().stop.get_or_insert(cause);
        self.changed.notify_waiters();
    }

    /// Stops the prompt if nobody reads it. False if somebody does, or if it is stopping already.
    pub(crate) fn abandon_if_unread(&self) -> bool {
        let mut state = self.state();
        if state.readers > 0 || state.stop.is_some() {
            return false;
        }
        state.stop = Some(EndCause::Abandoned);
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Waits until nobody reads it, or it is stopping.
    pub(crate) async fn unread(&self) {
        self.until(|state| state.readers == 0 || state.stop.is_some()).await;
    }

    /// Waits until the prompt is to stop: because somebody said so, or because the last stake lapsed.
    pub(crate) async fn stopped(&self) -> EndCause {
        loop {
            self.until(|state| state.readers == 0 || state.stop.is_some()).await;
            let lapses_at = {
                let mut state = self.state();
                if state.readers == 0 && state.lapses_at <= Instant::now() {
                    state.stop.get_or_insert(EndCause::Abandoned);
                }
                if let Some(stop) = state.stop {
                    return stop;
                }
                state.lapses_at
            };
            tokio::select! {
                () = sleep_until(lapses_at) => {}
                () = self.until(|state| state.readers > 0 || state.stop.is_some()) => {}
            }
        }
    }

    async fn until(&self, condition: impl Fn(&State) -> bool) {
        loop {
            // Registered before the look, so that no change between the two is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if condition(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    /// Every change of the state is whole before anything can panic, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a prompt from being abandoned.
pub(crate) struct Stake {
    live: Arc<Live>,
    linger: Duration,
}

impl Drop for Stake {
    fn drop(&mut self) {
        let mut state = self.live.state();
        state.readers -= 1;
        state.lapses_at = state.lapses_at.max(Instant::now() + self.linger);
        drop(state);
        self.live.changed.notify_waiters();
    }
}
