//! Ending a prompt, or a whole session, before its time.

use std::time::Duration;

use domain::{CancelReason, EndCause, Principal, PromptId, Rejection, SessionId};
use tokio::time::{Instant, timeout};

use crate::Engine;
use crate::live::Live;

/// How long a cancel waits for the end it has asked for, before it answers without having seen it.
const END: Duration = Duration::from_secs(1);

impl Engine {
    /// Cancels a running prompt of the session. When it returns, the terminal event is in the log.
    pub async fn cancel(
        &self,
        who: &Principal,
        session: SessionId,
        prompt: PromptId,
        reason: CancelReason,
    ) -> Result<(), Rejection> {
        let live = self.shared.running.get(prompt).filter(|live| live.who == *who && live.session == session);
        let live = live.ok_or(Rejection::PromptNotFound)?;
        let asked_at = Instant::now();
        match stop(&live, EndCause::Client(reason)).await {
            Some(EndCause::Client(_)) | None => {
                self.shared.measured.totals().cancelled(asked_at.elapsed());
                self.touch(who, session).await;
                Ok(())
            }
            // It came to its end before the cancel came to it.
            Some(_) => Err(Rejection::PromptNotFound),
        }
    }

    /// Ends a session; the prompt that runs in it is cancelled.
    pub async fn end_session(&self, who: &Principal, session: SessionId) -> Result<(), Rejection> {
        let ending = self.shared.ports.sessions.end(who, session).await?.ok_or(Rejection::SessionNotFound)?;
        if let Some(live) = ending.running.and_then(|prompt| self.shared.running.get(prompt)) {
            stop(&live, EndCause::SessionEnded).await;
        }
        if ending.is_first {
            self.measure_ended(who, session).await;
        }
        Ok(())
    }
}

/// Stops a prompt, and tells what ended it; none if that is not known in time.
async fn stop(live: &Live, cause: EndCause) -> Option<EndCause> {
    live.stop(cause);
    let ended = timeout(END, live.log.ended()).await.ok();
    if ended.is_none() {
        tracing::warn!(prompt = %live.prompt, "a prompt that was told to stop has not ended yet");
    }
    ended
}
