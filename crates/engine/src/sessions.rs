//! Sessions: starting one, its state, its conversation, and when it was last active.

use domain::{Exchange, NewSession, Principal, Rejection, Session, SessionId, SessionStatus, Timestamp};

use crate::Engine;

impl Engine {
    /// A fresh id for a session that its first question creates.
    pub fn new_session_id(&self) -> SessionId {
        SessionId::new(self.now())
    }

    /// Creates a session.
    pub async fn start_session(&self, principal: &Principal, new: NewSession) -> Result<Session, Rejection> {
        let now = self.now();
        let session = Session::new(SessionId::new(now), new, now);
        self.shared.ports.sessions.create(principal, session.clone()).await?;
        Ok(session)
    }

    /// The session with this id, also if it has ended or expired. Fails if the principal has no such session.
    pub async fn session(&self, principal: &Principal, id: SessionId) -> Result<Session, Rejection> {
        self.shared.ports.sessions.find(principal, id).await?.ok_or(Rejection::SessionNotFound)
    }

    /// The status of a session now, and when it expires or has expired.
    pub fn status_of(&self, session: &Session) -> (SessionStatus, Timestamp) {
        let idle = self.shared.limits.idle;
        (session.status(self.now(), idle), session.last_active_at.plus(idle))
    }

    /// The newest exchanges of a session, at most `limit`, oldest first. Fails if there is no such session.
    pub async fn conversation(
        &self,
        principal: &Principal,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Exchange>, Rejection> {
        self.session(principal, session).await?;
        Ok(self.shared.ports.history.conversation(principal, session, limit).await?)
    }

    /// Records activity of a session. A failure is only logged: the session may then expire a little early,
    /// which is better than to reject the request.
    pub(crate) async fn touch(&self, principal: &Principal, session: SessionId) {
        let now = self.now();
        let alive_since = now.minus(self.shared.limits.idle);
        if let Err(reason) = self.shared.ports.sessions.touch(principal, session, now, alive_since).await {
            tracing::warn!(%session, %reason, "the activity of a session could not be stored");
        }
    }
}
