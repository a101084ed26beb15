//! Cancelling a running prompt, on a client's request or because its session ends.

use domain::{CancelReason, EndCause, Principal, PromptId, Rejection, SessionId};
use tokio::time::Instant;

use crate::Engine;
use crate::running::prompt::RunningPrompt;

impl Engine {
    /// Cancels a running prompt of the session, and waits at most a second for its terminal event. Fails if
    /// the session has no such running prompt, or if the prompt ended by itself before the cancel took
    /// effect.
    pub async fn cancel(
        &self,
        principal: &Principal,
        session: SessionId,
        prompt: PromptId,
        reason: CancelReason,
    ) -> Result<(), Rejection> {
        let prompt = self.shared.running.get_of(principal, prompt);
        let prompt = prompt.filter(|prompt| prompt.session == session).ok_or(Rejection::PromptNotFound)?;
        let requested_at = Instant::now();
        match stop(&prompt, EndCause::Client(reason)).await {
            Some(EndCause::Client(_)) | None => {
                self.shared.metrics.lock().record_cancel(requested_at.elapsed());
                self.touch(principal, session).await;
                Ok(())
            }
            Some(_) => Err(Rejection::PromptNotFound),
        }
    }

    /// Ends a session for good, and cancels the prompt that runs in it. Fails if there is no such session;
    /// ending an ended session succeeds.
    pub async fn end_session(&self, principal: &Principal, session: SessionId) -> Result<(), Rejection> {
        let ports = &self.shared.ports;
        let ended = ports.sessions.end(principal, session).await?.ok_or(Rejection::SessionNotFound)?;
        if let Some(prompt) = ended.running.and_then(|prompt| self.shared.running.get(prompt)) {
            stop(&prompt, EndCause::SessionEnded).await;
        }
        if ended.is_first {
            self.record_ended_session(principal, session).await;
        }
        Ok(())
    }
}

/// Stops a prompt, and returns what ended it; none if it has not ended in time.
async fn stop(prompt: &RunningPrompt, cause: EndCause) -> Option<EndCause> {
    prompt.stop(cause);
    let ended = prompt.wait_for_end().await;
    if ended.is_none() {
        tracing::warn!(prompt = %prompt.id, "a prompt has not ended within a second of its stop");
    }
    ended
}
