//! Periodic maintenance of the store: retries ends that the journal did not take, and deletes old history.

use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use crate::Engine;

const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const RETENTION_INTERVAL: Duration = Duration::from_secs(3600);

/// Pause between two slices of a deletion. A slice takes a few milliseconds; other work runs in between.
const SLICE_PAUSE: Duration = Duration::from_millis(50);

impl Engine {
    /// Maintains the store until dropped: every second it retries the ends of prompts that the journal could
    /// not take, and every hour it deletes history older than `retention`. Failures are logged and retried.
    pub async fn run_maintenance(&self, retention: Duration) {
        futures::join!(self.retry_unwritten_ends(), self.apply_retention(retention));
    }

    async fn retry_unwritten_ends(&self) {
        loop {
            if let Err(reason) = self.shared.ports.journal.write_unrecorded_ends().await {
                warn!(%reason, "the ends of some prompts cannot be written to the journal yet; retrying");
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn apply_retention(&self, retention: Duration) {
        loop {
            self.delete_older_than(retention).await;
            sleep(RETENTION_INTERVAL).await;
        }
    }

    async fn delete_older_than(&self, retention: Duration) {
        let before = self.now().minus(retention);
        let mut expired_sessions = 0;
        loop {
            match self.shared.ports.history.delete_older_than(before).await {
                Ok(progress) => {
                    self.record_session_tokens(&progress.expired);
                    expired_sessions += progress.expired.len();
                    if !progress.more {
                        break;
                    }
                }
                Err(reason) => {
                    warn!(%reason, "old history cannot be deleted now");
                    return;
                }
            }
            sleep(SLICE_PAUSE).await;
        }
        if expired_sessions > 0 {
            info!(expired_sessions, %before, "history older than the retention period was deleted");
        }
    }
}
