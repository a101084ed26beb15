//! A running prompt: its log, the leases of its readers, and the request to stop it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{EndCause, Principal, PromptId, SessionId};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::running::log::PromptLog;

/// Upper bound on waiting for a prompt that was asked to stop.
const END_WAIT: Duration = Duration::from_secs(1);

/// A prompt while it runs on this node.
pub(crate) struct RunningPrompt {
    pub(crate) id: PromptId,
    pub(crate) session: SessionId,
    pub(crate) principal: Principal,
    /// How long the prompt runs on after the reader that started it has disconnected.
    pub(crate) grace: Duration,
    pub(crate) log: Arc<PromptLog>,
    lifetime: Mutex<Lifetime>,
    changed: Notify,
}

struct Lifetime {
    /// Leases that readers hold now.
    leases: usize,
    /// When the grace periods of all released leases are over.
    grace_ends_at: Instant,
    /// The first request to stop.
    stop: Option<EndCause>,
}

impl RunningPrompt {
    pub(crate) fn new(principal: Principal, session: SessionId, id: PromptId, grace: Duration) -> Self {
        let lifetime = Mutex::new(Lifetime { leases: 0, grace_ends_at: Instant::now(), stop: None });
        Self { id, session, principal, grace, log: Arc::default(), lifetime, changed: Notify::new() }
    }

    /// A lease on the prompt: the prompt is not abandoned while it is held, nor for `grace` after its
    /// release. None if the prompt is being abandoned already.
    pub(crate) fn lease(self: &Arc<Self>, grace: Duration) -> Option<ReaderLease> {
        let mut lifetime = self.lifetime();
        if lifetime.stop == Some(EndCause::Abandoned) {
            return None;
        }
        lifetime.leases += 1;
        drop(lifetime);
        self.changed.notify_waiters();
        Some(ReaderLease { prompt: self.clone(), grace })
    }

    /// Asks the prompt to stop. Only the first cause counts.
    pub(crate) fn stop(&self, cause: EndCause) {
        self.lifetime().stop.get_or_insert(cause);
        self.changed.notify_waiters();
    }

    /// Asks the prompt to stop if no reader holds a lease. False if one does, or if it is stopping already.
    pub(crate) fn abandon_if_unread(&self) -> bool {
        let mut lifetime = self.lifetime();
        if lifetime.leases > 0 || lifetime.stop.is_some() {
            return false;
        }
        lifetime.stop = Some(EndCause::Abandoned);
        drop(lifetime);
        self.changed.notify_waiters();
        true
    }

    /// Waits until no reader holds a lease, or the prompt is stopping.
    pub(crate) async fn wait_until_unread(&self) {
        self.wait_until(|lifetime| lifetime.leases == 0 || lifetime.stop.is_some()).await;
    }

    /// Waits until the prompt has to stop: on request, or because the grace period of its last reader is
    /// over.
    pub(crate) async fn wait_for_stop(&self) -> EndCause {
        loop {
            self.wait_until_unread().await;
            let grace_ends_at = {
                let mut lifetime = self.lifetime();
                if lifetime.leases == 0 && lifetime.grace_ends_at <= Instant::now() {
                    lifetime.stop.get_or_insert(EndCause::Abandoned);
                }
                if let Some(stop) = lifetime.stop {
                    return stop;
                }
                lifetime.grace_ends_at
            };
            tokio::select! {
                () = sleep_until(grace_ends_at) => {}
                () = self.wait_until(|lifetime| lifetime.leases > 0 || lifetime.stop.is_some()) => {}
            }
        }
    }

    /// Waits until the terminal event is visible, and returns what ended the prompt; none after a second.
    pub(crate) async fn wait_for_end(&self) -> Option<EndCause> {
        timeout(END_WAIT, self.log.wait_for_end()).await.ok()
    }

    async fn wait_until(&self, condition: impl Fn(&Lifetime) -> bool) {
        loop {
            // Registered before the condition is checked, so that no change in between is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if condition(&self.lifetime()) {
                return;
            }
            changed.await;
        }
    }

    /// Every change under the lock is complete before anything can panic, so a poisoned lock is still sound.
    fn lifetime(&self) -> MutexGuard<'_, Lifetime> {
        self.lifetime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's lease on a running prompt. Its release, on drop, starts the grace period.
pub(crate) struct ReaderLease {
    prompt: Arc<RunningPrompt>,
    grace: Duration,
}

impl Drop for ReaderLease {
    fn drop(&mut self) {
        let mut lifetime = self.prompt.lifetime();
        lifetime.leases -= 1;
        lifetime.grace_ends_at = lifetime.grace_ends_at.max(Instant::now() + self.grace);
        drop(lifetime);
        self.prompt.changed.notify_waiters();
    }
}
