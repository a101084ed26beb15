//! One claim attempt: asks the journal for the session and the idempotency key, and starts or joins a prompt.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Accepted, Ask, Claim, MessageId, NewPrompt, NewSession, OnDisconnect, Principal, PromptId, Provider,
    Rejection, Session, SessionPolicy, Timestamp,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::Engine;
use crate::running::prompt::RunningPrompt;
use crate::running::reader::{ReadMode, Reader};
use crate::running::task::PromptTask;

/// The result of one claim attempt that was not rejected.
pub(super) enum ClaimAttempt {
    /// The prompt was started or joined.
    Admitted(Reader),
    /// The prompt that stood in the way has just ended.
    Retry,
    /// This prompt runs in the session.
    SessionBusy(PromptId),
    /// The prompt would start, but every stream slot is taken.
    NoStreamSlot,
}

impl Engine {
    /// Claims in two steps: the first asks the journal without a stream slot, and only a request that would
    /// start takes one. So requests that join or are rejected never occupy a slot.
    pub(super) async fn claim(
        &self,
        principal: &Principal,
        ask: &Ask,
        provider: &Arc<dyn Provider>,
    ) -> Result<ClaimAttempt, Rejection> {
        let journal = &self.shared.ports.journal;
        let permit = self.reader_permit();
        let mut claim = journal.claim(principal, self.new_prompt(ask, provider, false)).await?;
        let creates_session = |claim: &Claim| {
            matches!(claim, Claim::SessionUnknown) && ask.session_policy == SessionPolicy::CreateIfMissing
        };
        let would_start = matches!(claim, Claim::NoRoom) || creates_session(&claim);
        // A request whose key has a prompt joins it even while the engine is stopping.
        let is_new = would_start || matches!(claim, Claim::SessionBusy(_));
        if is_new && self.shared.running.is_closed() {
            return Err(Rejection::Stopping);
        }
        if would_start {
            let starting = self.shared.starting.read().await;
            if let Ok(slot) = self.shared.stream_slots.clone().try_acquire_owned() {
                // Only with a slot in hand, so that a rejected request leaves no session behind.
                if creates_session(&claim) {
                    let new = Session::new(ask.session, NewSession::default(), self.now());
                    self.shared.ports.sessions.create(principal, new).await?;
                }
                let new = self.new_prompt(ask, provider, true);
                return self.start(principal, new, ask, provider, permit?, slot).await;
            }
            // A request with the same key may hold the last slot and be about to start: wait for its claim.
            drop(starting);
            drop(self.shared.starting.write().await);
            claim = journal.claim(principal, self.new_prompt(ask, provider, false)).await?;
            if creates_session(&claim) {
                return Ok(ClaimAttempt::NoStreamSlot);
            }
        }
        self.follow_claim(principal, ask, claim, permit?).await
    }

    /// Claims with a stream slot, and spawns the prompt's task if the journal still agrees. The prompt is
    /// registered before the journal knows it, so that a request which the journal sends to it finds it
    /// running.
    async fn start(
        &self,
        principal: &Principal,
        new: NewPrompt,
        ask: &Ask,
        provider: &Arc<dyn Provider>,
        permit: OwnedSemaphorePermit,
        slot: OwnedSemaphorePermit,
    ) -> Result<ClaimAttempt, Rejection> {
        let at = new.at;
        let (session, id) = (new.accepted.session, new.accepted.prompt);
        let grace = self.grace_period(ask.on_disconnect);
        let prompt = Arc::new(RunningPrompt::new(principal.clone(), session, id, grace));
        let lease = prompt.lease(grace);
        if !self.shared.running.insert(&prompt) {
            return Err(Rejection::Stopping);
        }
        let registration = Registration { engine: self, prompt: Some(id) };
        match self.shared.ports.journal.claim(principal, new).await? {
            Claim::Started(run, accepted) => {
                let reader = Reader::of_running(&prompt, lease, permit);
                registration.keep();
                let (engine, provider) = (self.clone(), provider.clone());
                let when_nothing_found = ask.when_nothing_found;
                let task = PromptTask { engine, prompt, run, provider, when_nothing_found, slot };
                task.spawn(accepted, at);
                Ok(ClaimAttempt::Admitted(reader))
            }
            claim => {
                drop((registration, slot));
                self.follow_claim(principal, ask, claim, permit).await
            }
        }
    }

    /// Acts on a claim that did not start a prompt: joins the prompt that has the key, or rejects.
    async fn follow_claim(
        &self,
        principal: &Principal,
        ask: &Ask,
        claim: Claim,
        permit: OwnedSemaphorePermit,
    ) -> Result<ClaimAttempt, Rejection> {
        match claim {
            Claim::Joined(prompt) => {
                let grace = self.grace_period(ask.on_disconnect);
                let Some(reader) = self.join(principal, prompt, grace, permit).await? else {
                    return Ok(ClaimAttempt::Retry);
                };
                self.touch(principal, reader.session()).await;
                Ok(ClaimAttempt::Admitted(reader))
            }
            Claim::KeyReused => Err(Rejection::KeyReused),
            Claim::SessionUnknown | Claim::SessionEnded => Err(Rejection::SessionNotUsable),
            Claim::SessionBusy(prompt) => Ok(ClaimAttempt::SessionBusy(prompt)),
            Claim::NoRoom => Ok(ClaimAttempt::NoStreamSlot),
            Claim::Started(..) => {
                Err(Rejection::Internal("a claim without room has started a prompt".to_owned()))
            }
        }
    }

    /// Reads the prompt that has a request's key. None if that prompt is being abandoned: once it has ended,
    /// its key is free for a new prompt.
    async fn join(
        &self,
        principal: &Principal,
        id: PromptId,
        grace: Duration,
        permit: OwnedSemaphorePermit,
    ) -> Result<Option<Reader>, Rejection> {
        let Some(prompt) = self.shared.running.get_of(principal, id) else {
            return self.attach(principal, id, ReadMode::KeepRunning, permit).await.map(Some);
        };
        let Some(lease) = prompt.lease(grace) else {
            prompt.wait_for_end().await;
            return Ok(None);
        };
        Ok(Some(Reader::of_running(&prompt, Some(lease), permit)))
    }

    /// A new prompt to claim. Without `room` the claim can join a prompt but not start one.
    fn new_prompt(&self, ask: &Ask, provider: &Arc<dyn Provider>, room: bool) -> NewPrompt {
        let at = self.now();
        let accepted = Accepted {
            prompt: PromptId::new(at),
            session: ask.session,
            answer: MessageId::new(at),
            question: ask.question.clone(),
            key: ask.key.clone(),
            follows: None,
            first_choice: provider.model(),
            trace: ask.trace,
        };
        let alive_since = match ask.session_policy {
            SessionPolicy::RequireActive => at.minus(self.shared.limits.idle),
            SessionPolicy::ReviveExpired | SessionPolicy::CreateIfMissing => Timestamp::MIN,
        };
        NewPrompt { accepted: Box::new(accepted), at, alive_since, room }
    }

    /// How long a prompt runs on after the reader of this request has disconnected.
    fn grace_period(&self, on_disconnect: OnDisconnect) -> Duration {
        match on_disconnect {
            OnDisconnect::Continue => self.shared.limits.resume,
            OnDisconnect::Cancel => Duration::ZERO,
        }
    }
}

/// Removes a prompt that did not start from the running ones when dropped.
struct Registration<'a> {
    engine: &'a Engine,
    prompt: Option<PromptId>,
}

impl Registration<'_> {
    fn keep(mut self) {
        self.prompt = None;
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        if let Some(prompt) = self.prompt {
            self.engine.shared.running.remove(prompt);
        }
    }
}
