//! Stored sessions and prompts: listing, reading and deleting them.

use domain::{Principal, Prompt, PromptFilter, PromptId, Rejection, Session, SessionId};

use crate::Engine;

impl Engine {
    /// The prompt with this id, running or ended. Fails if the principal has no such prompt.
    pub async fn prompt(&self, principal: &Principal, id: PromptId) -> Result<Prompt, Rejection> {
        // Looked up first: a prompt that ends in between has its final count in the history.
        let running = self.shared.running.get(id);
        let prompt = self.shared.ports.history.prompt(principal, id).await?;
        let mut prompt = prompt.ok_or(Rejection::PromptNotFound)?;
        if let Some(running) = running {
            prompt.token_count = prompt.token_count.max(running.log.token_count());
        }
        Ok(prompt)
    }

    /// At most `limit` prompts that pass the filter, running and ended, newest first.
    pub async fn prompts(
        &self,
        principal: &Principal,
        filter: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, Rejection> {
        let mut prompts = self.shared.ports.history.prompts(principal, filter, limit).await?;
        for prompt in &mut prompts {
            if let Some(running) = self.shared.running.get(prompt.id) {
                prompt.token_count = prompt.token_count.max(running.log.token_count());
            }
        }
        Ok(prompts)
    }

    /// At most `limit` sessions, newest first; with `before`, only those created before that one.
    pub async fn sessions(
        &self,
        principal: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, Rejection> {
        Ok(self.shared.ports.history.sessions(principal, before, limit).await?)
    }

    /// Deletes a session with its history, after cancelling the prompt that runs in it. Fails if there is no
    /// such session, or if its prompt has not ended in time.
    pub async fn delete_session(&self, principal: &Principal, id: SessionId) -> Result<(), Rejection> {
        self.end_session(principal, id).await?;
        if self.shared.ports.history.delete_session(principal, id).await? {
            return Ok(());
        }
        let session = self.session(principal, id).await?;
        Err(session.running.map_or(Rejection::SessionNotFound, Rejection::PromptInFlight))
    }
}
