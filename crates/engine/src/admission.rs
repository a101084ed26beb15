//! Admission: decides whether a request starts a prompt, joins the one that has its idempotency key, or is
//! rejected.
//!
//! In order: `validate` checks the request, `providers` chooses the provider, `claim` asks the journal for
//! the session, and `yielding` makes prompts without readers give up their session or stream slot. Nothing of
//! a prompt is stored before its claim.

mod claim;
pub(crate) mod providers;
mod validate;
mod yielding;

use std::time::Duration;

use domain::{Ask, Principal, Rejection, SessionPolicy};

use crate::Engine;
use crate::admission::claim::ClaimAttempt;
use crate::running::reader::Reader;

/// Upper bound on claims for one request. Another attempt follows when a prompt has ended to make room.
const CLAIM_ATTEMPTS: usize = 4;

const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Engine {
    /// Starts a prompt, or joins the one that has the request's idempotency key, and reads it from its first
    /// event.
    /// Fails if the request is invalid, its session is unusable or busy, its key belongs to another request, a
    /// limit is reached, or the engine is stopping.
    ///
    /// Admission runs in a task of its own and completes even if the caller is dropped: a claim without a
    /// task to run it would keep its session busy for good.
    pub async fn submit(&self, principal: &Principal, ask: Ask) -> Result<Reader, Rejection> {
        let (engine, principal) = (self.clone(), principal.clone());
        let admission = self.shared.tasks.spawn(async move { engine.admit(&principal, ask).await });
        admission.await.unwrap_or_else(|panic| Err(Rejection::Internal(format!("admission failed: {panic}"))))
    }

    async fn admit(&self, principal: &Principal, ask: Ask) -> Result<Reader, Rejection> {
        self.validate(&ask)?;
        let session = self.shared.ports.sessions.find(principal, ask.session).await?;
        if session.is_none() && ask.session_policy != SessionPolicy::CreateIfMissing {
            return Err(Rejection::SessionNotUsable);
        }
        let owner = session.as_ref().and_then(|session| session.owner.as_deref());
        let provider = self.shared.providers.choose(ask.question.provider.as_deref(), owner)?.clone();
        let mut rejection = Rejection::Stopping;
        for _ in 0..CLAIM_ATTEMPTS {
            match self.claim(principal, &ask, &provider).await? {
                ClaimAttempt::Admitted(reader) => return Ok(reader),
                ClaimAttempt::Retry => {}
                ClaimAttempt::SessionBusy(prompt) => {
                    rejection = Rejection::PromptInFlight(prompt);
                    if !self.abandon_if_unread(prompt).await {
                        break;
                    }
                }
                ClaimAttempt::NoStreamSlot => {
                    rejection = overloaded(
                        "every stream is taken (limits.concurrent_streams): ask again when a prompt has ended",
                    );
                    if !self.abandon_oldest_unread().await {
                        break;
                    }
                }
            }
        }
        Err(rejection)
    }
}

/// The rejection of a request for which a limit leaves no room.
pub(crate) fn overloaded(message: &str) -> Rejection {
    Rejection::Overloaded { message: message.to_owned(), retry_after: RETRY_AFTER }
}
