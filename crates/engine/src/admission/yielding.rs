//! Prompts without readers yield: one is abandoned when its session asks again or a new prompt needs a stream
//! slot.

use std::time::Duration;

use domain::PromptId;
use tokio::time::timeout;

use crate::Engine;

/// How long an admission waits for the last reader of a prompt to disconnect: a client may have closed its
/// connection just before it sent the new request, and the server reads the two in any order.
const DISCONNECT_WAIT: Duration = Duration::from_millis(50);

impl Engine {
    /// Abandons a prompt if it has no reader, or loses its last one within [`DISCONNECT_WAIT`]. True if the
    /// prompt has ended, by that or by itself.
    pub(super) async fn abandon_if_unread(&self, prompt: PromptId) -> bool {
        let Some(prompt) = self.shared.running.get(prompt) else { return true };
        let unread_or_ended = async {
            tokio::select! {
                () = prompt.wait_until_unread() => {}
                _ = prompt.log.wait_for_end() => {}
            }
        };
        if timeout(DISCONNECT_WAIT, unread_or_ended).await.is_err() {
            return false;
        }
        prompt.abandon_if_unread();
        prompt.wait_for_end().await.is_some()
    }

    /// Abandons the oldest prompt without readers. True if there was one and it has ended.
    pub(super) async fn abandon_oldest_unread(&self) -> bool {
        let running = self.shared.running.all();
        let Some(prompt) = running.into_iter().find(|prompt| prompt.abandon_if_unread()) else {
            return false;
        };
        prompt.wait_for_end().await.is_some()
    }
}
