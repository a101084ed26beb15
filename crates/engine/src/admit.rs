//! Admission: validate, join by key, session, limits. Nothing of a prompt exists before its claim.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Accepted, Ask, Claim, MAX_KEY_CHARS, MessageId, NewPrompt, Principal, PromptId, Provider, Rejection,
    Timestamp,
};
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
        if self.shared.running.is_closed() {
            return Err(Rejection::Stopping);
        }
        let session =
            self.shared.ports.sessions.find(who, ask.session).await?.ok_or(Rejection::SessionNotUsable)?;
        let name = ask.question.provider.as_deref();
        let provider = self.shared.routes.choose(name, session.owner.as_deref())?.clone();
        let mut refused = Rejection::Stopping;
        for _ in 0..CLAIMS {
            match self.claim(who, &ask, &provider).await? {
                Admitted::Reader(reader) => return Ok(reader),
                Admitted::Busy(prompt) => {
                    refused = Rejection::PromptInFlight(prompt);
                    if !self.yields_to_its_session(prompt).await {
                        break;
                    }
                }
                Admitted::NoRoom(why) => {
                    refused = why;
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
        let key_chars = ask.key.as_ref().map(|key| key.chars().count());
        if key_chars.is_some_and(|chars| chars == 0 || chars > MAX_KEY_CHARS) {
            return invalid(format!("the idempotency key must have 1 to {MAX_KEY_CHARS} characters"));
        }
        Ok(())
    }

    /// One claim. The prompt is among the running ones before the journal knows it, so that whoever the
    /// journal sends to it finds it.
    async fn claim(
        &self,
        who: &Principal,
        ask: &Ask,
        provider: &Arc<dyn Provider>,
    ) -> Result<Admitted, Rejection> {
        let shared = &self.shared;
        let permit = self.reader_permit();
        let slot = shared.streams.clone().try_acquire_owned().map_err(|_| {
            overloaded("every stream is taken (limits.concurrent_streams): ask again when a prompt has ended")
        });
        let at = shared.ports.clock.now();
        let new = self.new_prompt(at, ask, provider, permit.is_ok() && slot.is_ok());
        let live = Arc::new(Live::new(who.clone(), ask.session, new.accepted.prompt));
        let stake = live.stake(shared.limits.resume);
        if !shared.running.add(&live) {
            return Err(Rejection::Stopping);
        }
        let added = Added { engine: self, prompt: Some(live.prompt) };
        match shared.ports.journal.claim(who, new).await? {
            Claim::Started(run, accepted) => {
                let reader = Reader::of_live(&live, Some(stake), permit?);
                added.keep();
                let task = Task { engine: self.clone(), live, run, provider: provider.clone(), slot: slot? };
                task.spawn(accepted, at);
                Ok(Admitted::Reader(reader))
            }
            Claim::Joined(prompt) => {
                let reader = self.attach(who, prompt, Interest::Stake, permit?).await?;
                self.touch(who, reader.session()).await?;
                Ok(Admitted::Reader(reader))
            }
            Claim::KeyReused => Err(Rejection::KeyReused),
            Claim::SessionUnknown | Claim::SessionEnded => Err(Rejection::SessionNotUsable),
            Claim::SessionBusy(prompt) => Ok(Admitted::Busy(prompt)),
            Claim::NoRoom => Ok(Admitted::NoRoom(permit.err().or(slot.err()).unwrap_or(Rejection::Stopping))),
        }
    }

    fn new_prompt(&self, at: Timestamp, ask: &Ask, provider: &Arc<dyn Provider>, room: bool) -> NewPrompt {
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
        NewPrompt { accepted: Box::new(accepted), at, alive_since: at.minus(self.shared.limits.idle), room }
    }

    /// A prompt that nobody reads any more is abandoned at once when its session asks again.
    async fn yields_to_its_session(&self, prompt: PromptId) -> bool {
        let Some(live) = self.shared.running.get(prompt) else { return false };
        if timeout(LEAVING, live.unread()).await.is_err() {
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

enum Admitted {
    Reader(Reader),
    Busy(PromptId),
    NoRoom(Rejection),
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
