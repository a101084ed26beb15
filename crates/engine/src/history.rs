//! What was asked and answered: looking it up, and forgetting it.

use std::time::Duration;

use domain::{Principal, Prompt, PromptFilter, PromptId, Rejection, Session, SessionId};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::Engine;

/// How often the store is looked after.
const MENDING: Duration = Duration::from_secs(1);
const FORGETTING: Duration = Duration::from_secs(3600);

/// A slice of forgetting takes a few milliseconds; in between others have their turn.
const BETWEEN_SLICES: Duration = Duration::from_millis(50);

impl Engine {
    /// The prompt with this id, running or ended.
    pub async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Prompt, Rejection> {
        let live = self.shared.running.get(id);
        let mut prompt = self.shared.ports.history.prompt(who, id).await?.ok_or(Rejection::PromptNotFound)?;
        if let Some(live) = live {
            prompt.token_count = prompt.token_count.max(live.log.token_count());
        }
        Ok(prompt)
    }

    /// Sessions made before the given one, the newest first.
    pub async fn sessions(
        &self,
        who: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, Rejection> {
        Ok(self.shared.ports.history.sessions(who, before, limit).await?)
    }

    /// The newest prompts, running and ended, the newest first.
    pub async fn prompts(
        &self,
        who: &Principal,
        which: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, Rejection> {
        let mut prompts = self.shared.ports.history.prompts(who, which, limit).await?;
        for prompt in &mut prompts {
            if let Some(live) = self.shared.running.get(prompt.id) {
                prompt.token_count = prompt.token_count.max(live.log.token_count());
            }
        }
        Ok(prompts)
    }

    /// Removes a session with its history; the prompt that runs in it is cancelled first.
    pub async fn delete_session(&self, who: &Principal, id: SessionId) -> Result<(), Rejection> {
        self.end_session(who, id).await?;
        if self.shared.ports.history.delete_session(who, id).await? {
            return Ok(());
        }
        let session = self.session(who, id).await?;
        Err(session.running.map_or(Rejection::SessionNotFound, Rejection::PromptInFlight))
    }

    /// Looks after the store for as long as the server runs: ends what could not be ended, and forgets what
    /// is older than `retention`.
    pub async fn keep_house(&self, retention: Duration) {
        futures::join!(self.keep_mending(), self.keep_forgetting(retention));
    }

    async fn keep_mending(&self) {
        loop {
            if let Err(reason) = self.shared.ports.journal.mend().await {
                warn!(%reason, "ended prompts wait for the journal");
            }
            sleep(MENDING).await;
        }
    }

    async fn keep_forgetting(&self, retention: Duration) {
        loop {
            self.forget_older_than(retention).await;
            sleep(FORGETTING).await;
        }
    }

    async fn forget_older_than(&self, retention: Duration) {
        let before = self.shared.ports.clock.now().minus(retention);
        let mut slices = 0_u64;
        loop {
            match self.shared.ports.history.delete_older_than(before).await {
                Ok(forgotten) => {
                    self.measure_expired(&forgotten.expired);
                    if !forgotten.more {
                        break;
                    }
                    slices += 1;
                }
                Err(reason) => {
                    warn!(%reason, "old history cannot be forgotten now");
                    return;
                }
            }
            sleep(BETWEEN_SLICES).await;
        }
        if slices > 0 {
            info!(slices, %before, "old history was forgotten");
        }
    }
}
