//! Sessions as they stand.

use std::time::Duration;

use domain::{NewSession, Principal, Rejection, Session, SessionId, SessionStatus, Timestamp};

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
    pub fn status_of(&self, session: &Session) -> (SessionStatus, Timestamp) {
        let idle: Duration = self.shared.limits.idle;
        (session.status(self.shared.ports.clock.now(), idle), session.last_active_at.plus(idle))
    }
}
