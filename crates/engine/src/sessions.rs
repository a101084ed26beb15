//! Sessions and prompts as they stand.

use std::time::Duration;

use domain::{
    NewSession, Principal, Prompt, PromptId, Rejection, Session, SessionId, SessionStatus, Timestamp,
};

use crate::Engine;

impl Engine {
    /// Starts a session.
    pub async fn start_session(&self, who: &Principal, new: NewSession) -> Result<Session, Rejection> {
        let now = self.shared.ports.clock.now();
        let session = Session::new(SessionId::new(now), new, now);
        self.shared.ports.sessions.create(who, session.clone()).await?;
        Ok(session)
    }

    /// The session with this id, alive or not.
    pub async fn session(&self, who: &Principal, id: SessionId) -> Result<Session, Rejection> {
        self.shared.ports.sessions.find(who, id).await?.ok_or(Rejection::SessionNotFound)
    }

    /// What a session is now, and when it expires or has expired.
    pub fn standing(&self, session: &Session) -> (SessionStatus, Timestamp) {
        let idle: Duration = self.shared.limits.idle;
        (session.status(self.shared.ports.clock.now(), idle), session.last_active_at.plus(idle))
    }

    /// The prompt with this id, running or ended.
    pub async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Prompt, Rejection> {
        let live = self.shared.running.get(id);
        let mut prompt = self.shared.ports.history.prompt(who, id).await?.ok_or(Rejection::PromptNotFound)?;
        if let Some(live) = live {
            prompt.token_count = prompt.token_count.max(live.log.token_count());
        }
        Ok(prompt)
    }
}
