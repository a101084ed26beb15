//! What was said in a session, and the name of one that is yet to begin.

use domain::{Exchange, Principal, Rejection, SessionId};

use crate::Engine;

impl Engine {
    /// A name for a session that its first question makes.
    pub fn new_session_id(&self) -> SessionId {
        SessionId::new(self.shared.ports.clock.now())
    }

    /// The newest exchanges of a session, at most `limit`, the oldest of them first.
    pub async fn conversation(
        &self,
        who: &Principal,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Exchange>, Rejection> {
        self.session(who, session).await?;
        Ok(self.shared.ports.history.conversation(who, session, limit).await?)
    }
}
