//! Admission: validate, join by key, session, limits. Nothing of a prompt exists before its claim.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Accepted, Ask, Claim, MAX_KEY_CHARS, MessageId, NewPrompt, NewSession, OnDisconnect, Principal, PromptId,
    Provider, Rejection, SearchScope, Session, SessionPolicy, Timestamp,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::Engine;
use crate::live::Live;
use crate::readers::{Interest, Reader};
use crate::run::Task;

/// How often a claim is tried while other prompts yield to it.
const CLAIMS: usize = 4;

/// How long a claim waits for a prompt that yields, and for the news that a reader has left: its
/// connection may have closed just before the new request was read.
const YIELD: Duration = Duration::from_secs(1);
const LEAVING: Duration = Duration::from_millis(50);

const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Engine {
    /// Starts a prompt, or joins the one that has its key, and reads it from its first event.
    ///
    /// Admission goes on when the caller is dropped in the middle of it: a claim without a task to run it
    /// would keep its session busy for good.
    pub async fn submit(&self, who: &Principal, ask: Ask) -> Result<Reader, Rejection> {
        let (engine, who) = (self.clone(), who.clone());
        let admission = self.shared.tasks.spawn(async move { engine.admit(&who, ask).await });
        admission.await.unwrap_or_else(|panic| Err(Rejection::Internal(format!("admission failed: {panic}"))))
    }

    async fn admit(&self, who: &Principal, ask: Ask) -> Result<Reader, Rejection> {
        self.validate(&ask)?;
        let session = self.shared.ports.sessions.find(who, ask.session).await?;
        if session.is_none() && ask.session_policy != SessionPolicy::CreateIfMissing {
            return Err(Rejection::SessionNotUsable);
        }
        let owner = session.as_ref().and_then(|session| session.owner.as_deref());
        let provider = self.shared.providers.choose(ask.question.provider.as_deref(), owner)?.clone();
        let mut refused = Rejection::Stopping;
        for _ in 0..CLAIMS {
            match self.claim(who, &ask, &provider).await? {
                Admitted::Reader(reader) => return Ok(reader),
                Admitted::Again => {}
                Admitted::Busy(prompt) => {
                    refused = Rejection::PromptInFlight(prompt);
                    if !self.yields_to_its_session(prompt).await {
                        break;
                    }
                }
                Admitted::NoStream => {
                    refused = overloaded(
                        "every stream is taken (limits.concurrent_streams): ask again when a prompt has ended",
                    );
                    if !self.oldest_unread_yields().await {
                        break;
                    }
                }
            }
        }
        Err(refused)
    }

    fn validate(&self, ask: &Ask) -> Result<(), Rejection> {
        let invalid = |message: String| Err(Rejection::Invalid(message));
        let question = &ask.question;
        if question.text.trim().is_empty() {
            return invalid(
                "the prompt is empty: it must have at least one character that is not white space".to_owned(),
            );
        }
        let longest = self.shared.limits.question_chars;
        let chars = question.text.chars().count();
        if chars > longest {
            return invalid(format!(
                "the prompt has {chars} characters; at most {longest} are allowed (limits.question_chars)"
            ));
        }
        if let SearchScope::Selection(text) = &question.scope {
            let chars = text.chars().count();
            if text.trim().is_empty() {
                return invalid("the selection is empty: select what the question is about".to_owned());
            }
            if chars > longest {
                return invalid(format!(
                    "the selection has {chars} characters; at most {longest} are allowed (limits.question_chars)"
                ));
            }
        }
        let key_chars = ask.key.as_ref().map(|key| key.chars().count());
        if key_chars.is_some_and(|chars| chars == 0 || chars > MAX_KEY_CHARS) {
            return invalid(format!("the idempotency key must have 1 to {MAX_KEY_CHARS} characters"));
        }
        Ok(())
    }

    /// One claim, in two steps: a request takes a stream only when the journal says that it would start, so
    /// that those who join or are refused never stand in another's way.
    async fn claim(
        &self,
        who: &Principal,
        ask: &Ask,
        provider: &Arc<dyn Provider>,
    ) -> Result<Admitted, Rejection> {
        let journal = &self.shared.ports.journal;
        let permit = self.reader_permit();
        let mut claim = journal.claim(who, self.new_prompt(ask, provider, false)).await?;
        let makes_session = |claim: &Claim| {
            matches!(claim, Claim::SessionUnknown) && ask.session_policy == SessionPolicy::CreateIfMissing
        };
        let would_start = matches!(claim, Claim::NoRoom) || makes_session(&claim);
        // Whoever has the key of a prompt joins it until the end.
        let is_new = would_start || matches!(claim, Claim::SessionBusy(_));
        if is_new && self.shared.running.is_closed() {
            return Err(Rejection::Stopping);
        }
        if would_start {
            let starting = self.shared.starting.read().await;
            if let Ok(slot) = self.shared.streams.clone().try_acquire_owned() {
                // Not before there is a stream for it: nothing is left of who is refused.
                if makes_session(&claim) {
                    let new = Session::new(ask.session, NewSession::default(), self.shared.ports.clock.now());
                    self.shared.ports.sessions.create(who, new).await?;
                }
                let new = self.new_prompt(ask, provider, true);
                return self.start(who, new, ask, provider, permit?, slot).await;
            }
            // Whoever has the last stream may be starting the very prompt that has this one's key.
            drop(starting);
            drop(self.shared.starting.write().await);
            claim = journal.claim(who, self.new_prompt(ask, provider, false)).await?;
            if makes_session(&claim) {
                return Ok(Admitted::NoStream);
            }
        }
        self.admit_to_running(who, ask, claim, permit?).await
    }

    /// Starts a prompt, unless the journal has changed its mind. The prompt is among the running ones before
    /// the journal knows it, so that whoever the journal sends to it finds it.
    async fn start(
        &self,
        who: &Principal,
        new: NewPrompt,
        ask: &Ask,
        provider: &Arc<dyn Provider>,
        permit: OwnedSemaphorePermit,
        slot: OwnedSemaphorePermit,
    ) -> Result<Admitted, Rejection> {
        let at = new.at;
        let (session, prompt) = (new.accepted.session, new.accepted.prompt);
        let live = Arc::new(Live::new(who.clone(), session, prompt, self.lingering(ask.on_disconnect)));
        let stake = live.stake(live.lingering);
        if !self.shared.running.add(&live) {
            return Err(Rejection::Stopping);
        }
        let added = Added { engine: self, prompt: Some(live.prompt) };
        match self.shared.ports.journal.claim(who, new).await? {
            Claim::Started(run, accepted) => {
                let reader = Reader::of_live(&live, stake, permit);
                added.keep();
                let (engine, provider) = (self.clone(), provider.clone());
                let when_nothing_found = ask.when_nothing_found;
                let task = Task { engine, live, run, provider, when_nothing_found, slot };
                task.spawn(accepted, at);
                Ok(Admitted::Reader(reader))
            }
            claim => {
                drop((added, slot));
                self.admit_to_running(who, ask, claim, permit).await
            }
        }
    }

    /// What a claim that started nothing comes to.
    async fn admit_to_running(
        &self,
        who: &Principal,
        ask: &Ask,
        claim: Claim,
        permit: OwnedSemaphorePermit,
    ) -> Result<Admitted, Rejection> {
        match claim {
            Claim::Joined(prompt) => {
                let lingering = self.lingering(ask.on_disconnect);
                let Some(reader) = self.join(who, prompt, lingering, permit).await? else {
                    return Ok(Admitted::Again);
                };
                self.touch(who, reader.session()).await;
                Ok(Admitted::Reader(reader))
            }
            Claim::KeyReused => Err(Rejection::KeyReused),
            Claim::SessionUnknown | Claim::SessionEnded => Err(Rejection::SessionNotUsable),
            Claim::SessionBusy(prompt) => Ok(Admitted::Busy(prompt)),
            Claim::NoRoom => Ok(Admitted::NoStream),
            Claim::Started(..) => {
                Err(Rejection::Internal("a claim without room has started a prompt".to_owned()))
            }
        }
    }

    /// Reads the prompt that has a request's key. None if it is being abandoned: once it has ended, its key
    /// starts anew.
    async fn join(
        &self,
        who: &Principal,
        prompt: PromptId,
        lingering: Duration,
        permit: OwnedSemaphorePermit,
    ) -> Result<Option<Reader>, Rejection> {
        let Some(live) = self.shared.running.get(prompt).filter(|live| live.who == *who) else {
            return self.attach(who, prompt, Interest::Stake, permit).await.map(Some);
        };
        let Some(stake) = live.stake(lingering) else {
            let _ = timeout(YIELD, live.log.ended()).await;
            return Ok(None);
        };
        Ok(Some(Reader::of_live(&live, Some(stake), permit)))
    }

    fn new_prompt(&self, ask: &Ask, provider: &Arc<dyn Provider>, room: bool) -> NewPrompt {
        let at = self.shared.ports.clock.now();
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
            SessionPolicy::ReviveExpired | SessionPolicy::CreateIfMissing => Timestamp::from_micros(i64::MIN),
        };
        NewPrompt { accepted: Box::new(accepted), at, alive_since, room }
    }

    /// How long a prompt goes on when a reader has left.
    fn lingering(&self, on_disconnect: OnDisconnect) -> Duration {
        match on_disconnect {
            OnDisconnect::Continue => self.shared.limits.resume,
            OnDisconnect::Cancel => Duration::ZERO,
        }
    }

    /// A prompt that nobody reads any more is abandoned at once when its session asks again. True if it has
    /// ended, by that or by itself.
    async fn yields_to_its_session(&self, prompt: PromptId) -> bool {
        let Some(live) = self.shared.running.get(prompt) else { return true };
        let left = async {
            tokio::select! {
                () = live.unread() => {}
                _ = live.log.ended() => {}
            }
        };
        if timeout(LEAVING, left).await.is_err() {
            return false;
        }
        live.abandon_if_unread();
        timeout(YIELD, live.log.ended()).await.is_ok()
    }

    /// The oldest prompt that nobody reads makes room for a new one.
    async fn oldest_unread_yields(&self) -> bool {
        let Some(live) = self.shared.running.all().into_iter().find(|live| live.abandon_if_unread()) else {
            return false;
        };
        timeout(YIELD, live.log.ended()).await.is_ok()
    }
}

/// What came of one claim.
enum Admitted {
    Reader(Reader),
    /// What stood in its way has just ended.
    Again,
    /// This prompt runs in the session.
    Busy(PromptId),
    /// Every stream is taken.
    NoStream,
}

/// Takes a prompt that did not start off the running ones again.
struct Added<'a> {
    engine: &'a Engine,
    prompt: Option<PromptId>,
}

impl Added<'_> {
    fn keep(mut self) {
        self.prompt = None;
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        if let Some(prompt) = self.prompt {
            self.engine.shared.running.remove(prompt);
        }
    }
}

pub(crate) fn overloaded(message: &str) -> Rejection {
    Rejection::Overloaded { message: message.to_owned(), retry_after: RETRY_AFTER }
}
