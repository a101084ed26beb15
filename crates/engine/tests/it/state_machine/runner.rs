//! Runs a sequence of actions on the engine beside the reference model.

use std::time::Duration;

use domain::{
    CancelReason, Clock, EndCause, Ended, Event, Failure, FailureKind, FinishReason, Outcome, PromptId,
    PromptStatus, Rejection, SessionId, SessionStatus,
};
use engine::Reader;
use testing::{ManualCall, PausedClock};
use tokio::time::{Instant, sleep};

use crate::harness::{Harness, check_shape, end_of, limits, read_all, read_now, text_of};
use crate::state_machine::actions::{Action, SESSIONS};
use crate::state_machine::reference_model::{AskResult, ModelEnd, ReferenceModel};
use crate::stores::StoreBackend;

/// No deadline may fall within this time after an action: a rejected request waits up to 50 ms for a reader
/// to disconnect.
const DEADLINE_MARGIN: Duration = Duration::from_millis(60);

/// Upper bound on polls until the engine agrees with the model.
const MAX_POLLS: usize = 20_000;

/// Applies actions to the engine and to the reference model, and compares them after each.
pub(crate) struct Runner {
    backend: Box<dyn StoreBackend>,
    clock: PausedClock,
    harness: Harness,
    model: ReferenceModel,
    sessions: Vec<SessionId>,
    prompts: Vec<TrackedPrompt>,
    readers: Vec<TrackedReader>,
}

/// The engine's side of a prompt of the reference model.
struct TrackedPrompt {
    id: PromptId,
    call: Option<ManualCall>,
    /// The events that any reader has seen.
    seen: Vec<Event>,
}

struct TrackedReader {
    prompt: usize,
    reader: Reader,
    /// Number of events read.
    read: usize,
    holds_lease: bool,
}

impl Runner {
    pub(crate) async fn new(backend: Box<dyn StoreBackend>) -> Self {
        let clock = PausedClock::new();
        let harness = Harness::at(clock, backend.open(clock.now()), limits());
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(harness.start_session().await);
        }
        let model = ReferenceModel::new(SESSIONS, Instant::now());
        Self { backend, clock, harness, model, sessions, prompts: Vec::new(), readers: Vec::new() }
    }

    pub(crate) async fn apply(&mut self, action: &Action) {
        self.skip_deadlines().await;
        match *action {
            Action::Ask { session, question, key } => self.ask(session, question, key).await,
            Action::Tokens { prompt, count } => self.tokens(prompt, count),
            Action::Finish { prompt } => self.provider_ends(prompt, ModelEnd::Done, ManualCall::finish),
            Action::Fail { prompt, kind } => self.provider_ends(prompt, ModelEnd::Failed(kind), |call| {
                call.fail(Failure::new(kind, "scripted failure"));
            }),
            Action::Panic { prompt } => {
                self.provider_ends(prompt, ModelEnd::Failed(FailureKind::Internal), ManualCall::panic);
            }
            Action::Disconnect { reader } => self.disconnect(reader),
            Action::Reconnect { prompt } => self.reconnect(prompt).await,
            Action::Cancel { prompt } => self.cancel(prompt).await,
            Action::EndSession { session } => self.end_session(session).await,
            Action::AdvanceTime { time } => sleep(time).await,
            Action::Restart { crash } => self.restart(crash).await,
        }
        self.model.advance(Instant::now());
        self.compare().await;
    }

    /// Shuts down, which ends the running prompts, and reads every log once more.
    pub(crate) async fn finish(mut self) {
        self.harness.engine.shutdown().await;
        for prompt in self.model.running().collect::<Vec<_>>() {
            self.model.end(prompt, ModelEnd::Failed(FailureKind::Interrupted), Instant::now());
        }
        self.compare().await;
        for (prompt, tracked) in self.prompts.iter().enumerate() {
            let mut replay = self.harness.read(tracked.id).await.expect("an ended log");
            let log = read_all(&mut replay).await;
            assert!(log.starts_with(&tracked.seen), "a replay equals what was seen");
            let expected = self.model.prompts[prompt].end.expect("everything has ended");
            assert_eq!(model_end(&end_of(&log)), expected);
            assert_eq!(text_of(&log), self.model.prompts[prompt].texts.concat());
        }
        assert!(self.harness.calls.try_next().is_none(), "one call per prompt");
    }

    /// Advances past a deadline that is near, so that an action never races with it.
    async fn skip_deadlines(&mut self) {
        while self.model.next_due(Instant::now()).is_some_and(|due| due <= Instant::now() + DEADLINE_MARGIN) {
            sleep(DEADLINE_MARGIN).await;
            self.model.advance(Instant::now());
        }
        self.compare().await;
    }

    async fn ask(&mut self, session: usize, question: u8, key: Option<u8>) {
        let asked_at = Instant::now();
        let (text, key_text) = (format!("question {question}"), key.map(|key| format!("key {key}")));
        let answer = self.harness.ask(self.sessions[session], &text, key_text.as_deref()).await;
        let expected = self.model.ask(session, question, key, asked_at);
        match (answer, expected) {
            (Ok(reader), AskResult::Started) => {
                let call = Some(self.harness.calls.next().await);
                let prompt = self.prompts.len();
                self.prompts.push(TrackedPrompt { id: reader.prompt(), call, seen: Vec::new() });
                self.readers.push(TrackedReader { prompt, reader, read: 0, holds_lease: true });
            }
            (Ok(reader), AskResult::Joined(prompt)) => {
                assert_eq!(reader.prompt(), self.prompts[prompt].id, "the prompt that has the key");
                self.track_reader(prompt, reader);
            }
            (Err(Rejection::KeyReused), AskResult::KeyReused)
            | (Err(Rejection::SessionNotUsable), AskResult::NotUsable)
            | (Err(Rejection::Overloaded { .. }), AskResult::Overloaded) => {}
            (Err(Rejection::PromptInFlight(id)), AskResult::Busy(prompt)) => {
                assert_eq!(id, self.prompts[prompt].id);
            }
            (answer, expected) => {
                panic!("expected {expected:?}, got {:?}", answer.map(|reader| reader.prompt()))
            }
        }
    }

    fn tokens(&mut self, prompt: usize, count: usize) {
        let Some(prompt) = self.pick_running(prompt) else { return };
        for n in 0..count {
            let text = format!("{prompt}.{n} ");
            let room = limits().max_tokens as usize - self.model.prompts[prompt].texts.len();
            if room == 0 {
                return;
            }
            self.prompts[prompt].call.as_ref().expect("it runs").text(&text);
            self.model.token(prompt, text, Instant::now());
        }
    }

    fn provider_ends(&mut self, prompt: usize, end: ModelEnd, act: impl FnOnce(ManualCall)) {
        let Some(prompt) = self.pick_running(prompt) else { return };
        let is_empty = self.model.prompts[prompt].texts.is_empty();
        let end =
            if end == ModelEnd::Done && is_empty { ModelEnd::Failed(FailureKind::EmptyAnswer) } else { end };
        act(self.prompts[prompt].call.take().expect("it runs"));
        self.model.end(prompt, end, Instant::now());
    }

    fn disconnect(&mut self, reader: usize) {
        if self.readers.is_empty() {
            return;
        }
        let tracked_reader = self.readers.swap_remove(reader % self.readers.len());
        if tracked_reader.holds_lease && self.model.prompts[tracked_reader.prompt].end.is_none() {
            self.model.leave(tracked_reader.prompt, Instant::now());
        }
    }

    async fn reconnect(&mut self, prompt: usize) {
        let Some(prompt) = self.pick(prompt) else { return };
        let reader = self
            .harness
            .engine
            .read(&self.harness.principal, self.prompts[prompt].id)
            .await
            .expect("a known prompt");
        self.model.join(prompt, Instant::now());
        self.track_reader(prompt, reader);
    }

    async fn cancel(&mut self, prompt: usize) {
        let Some(prompt) = self.pick(prompt) else { return };
        let session = self.model.prompts[prompt].session;
        let (id, reason) = (self.prompts[prompt].id, CancelReason::UserInitiated);
        let cancelled =
            self.harness.engine.cancel(&self.harness.principal, self.sessions[session], id, reason).await;
        match self.model.prompts[prompt].end {
            None => {
                cancelled.expect("a running prompt can be cancelled");
                self.model.end(prompt, ModelEnd::Cancelled, Instant::now());
                self.model.touch(session, Instant::now());
            }
            Some(_) => assert!(matches!(cancelled, Err(Rejection::PromptNotFound))),
        }
    }

    async fn end_session(&mut self, session: usize) {
        self.harness
            .engine
            .end_session(&self.harness.principal, self.sessions[session])
            .await
            .expect("a known session");
        self.model.sessions[session].ended = true;
        if let Some(prompt) = self.model.running_in(session) {
            self.model.end(prompt, ModelEnd::SessionEnded, Instant::now());
        }
    }

    /// Starts another server over the same store, after a shutdown or a crash of this one.
    async fn restart(&mut self, crash: bool) {
        if !self.backend.is_durable() {
            return;
        }
        if crash {
            self.backend.crash().await;
        } else {
            self.harness.engine.shutdown().await;
            self.backend.close().await;
        }
        self.readers.clear();
        for tracked in &mut self.prompts {
            tracked.call = None;
        }
        for prompt in self.model.running().collect::<Vec<_>>() {
            self.model.end(prompt, ModelEnd::Failed(FailureKind::Interrupted), Instant::now());
        }
        self.harness = Harness::at(self.clock, self.backend.open(self.clock.now()), limits());
    }

    fn track_reader(&mut self, prompt: usize, reader: Reader) {
        let holds_lease = self.model.prompts[prompt].end.is_none();
        self.readers.push(TrackedReader { prompt, reader, read: 0, holds_lease });
    }

    fn pick(&self, number: usize) -> Option<usize> {
        (!self.prompts.is_empty()).then(|| number % self.prompts.len())
    }

    fn pick_running(&self, number: usize) -> Option<usize> {
        let running: Vec<_> = self.model.running().collect();
        (!running.is_empty()).then(|| running[number % running.len()])
    }

    /// Compares everything that is visible of the engine with the reference model.
    async fn compare(&mut self) {
        for prompt in 0..self.prompts.len() {
            self.settle(prompt).await;
        }
        self.compare_readers().await;
        for session in 0..SESSIONS {
            let stored = self
                .harness
                .engine
                .session(&self.harness.principal, self.sessions[session])
                .await
                .expect("known");
            assert_eq!(stored.prompt_count, self.model.sessions[session].prompt_count);
            let is_active = self.harness.engine.status_of(&stored).0 == SessionStatus::Active;
            assert_eq!(
                is_active,
                self.model.is_alive(session, Instant::now()),
                "liveness of session {session}"
            );
            let running = self.model.running_in(session).map(|prompt| self.prompts[prompt].id);
            assert_eq!(stored.running, running);
        }
    }

    /// Waits until the engine agrees with the reference model on a prompt, and fails if it never does.
    async fn settle(&mut self, prompt: usize) {
        let expected = &self.model.prompts[prompt];
        let status = expected.end.map_or(PromptStatus::InFlight, ModelEnd::status);
        let wanted = (status, expected.texts.len() as u64);
        let mut got = None;
        for _ in 0..MAX_POLLS {
            let stored = self
                .harness
                .engine
                .prompt(&self.harness.principal, self.prompts[prompt].id)
                .await
                .expect("a known prompt");
            got = Some((stored.status, stored.token_count));
            if got == Some(wanted) {
                let call = self.prompts[prompt].call.as_ref();
                assert!(
                    call.is_none_or(|call| call.is_aborted() == expected.end.is_some()),
                    "one call while it runs"
                );
                return;
            }
            yield_to_other_threads().await;
        }
        panic!("prompt {prompt} is {got:?}, expected {wanted:?}");
    }

    /// Checks that every reader has seen what the model says, and that all readers of a prompt have seen the
    /// same.
    async fn compare_readers(&mut self) {
        for tracked_reader in &mut self.readers {
            let has_ended = self.model.prompts[tracked_reader.prompt].end.is_some();
            let (mut events, mut is_complete) = read_now(&mut tracked_reader.reader);
            // A terminal event is stored a moment before it is visible.
            for _ in 0..MAX_POLLS {
                if is_complete == has_ended {
                    break;
                }
                yield_to_other_threads().await;
                let (more, ended) = read_now(&mut tracked_reader.reader);
                events.extend(more);
                is_complete = ended;
            }
            let tracked = &mut self.prompts[tracked_reader.prompt];
            for event in events {
                match tracked.seen.get(tracked_reader.read) {
                    Some(seen) => assert_eq!(*seen, event, "a visible event never changes"),
                    None => tracked.seen.push(event),
                }
                tracked_reader.read += 1;
            }
            check_shape(&tracked.seen);
            let expected = &self.model.prompts[tracked_reader.prompt];
            assert_eq!(text_of(&tracked.seen[..tracked_reader.read]), expected.texts.concat());
            assert_eq!(is_complete, expected.end.is_some());
            if let Some(end) = expected.end {
                assert_eq!(model_end(&end_of(&tracked.seen)), end);
            }
        }
    }
}

/// Lets other tasks and the store's threads proceed. Takes real time, and none of the paused time.
async fn yield_to_other_threads() {
    let waited = tokio::task::spawn_blocking(std::thread::yield_now).await;
    waited.expect("yielding does not panic");
}

impl ModelEnd {
    fn status(self) -> PromptStatus {
        match self {
            Self::Done | Self::CutShort => PromptStatus::Done,
            Self::Cancelled | Self::Abandoned | Self::SessionEnded => PromptStatus::Cancelled,
            Self::Failed(_) => PromptStatus::Error,
        }
    }
}

fn model_end(ended: &Ended) -> ModelEnd {
    match (&ended.outcome, ended.cause) {
        (Outcome::Failed(failure), _) => ModelEnd::Failed(failure.kind),
        (Outcome::Done(FinishReason::Length), EndCause::Limit) => ModelEnd::CutShort,
        (Outcome::Done(_), _) => ModelEnd::Done,
        (Outcome::Cancelled, EndCause::Client(_)) => ModelEnd::Cancelled,
        (Outcome::Cancelled, EndCause::Abandoned) => ModelEnd::Abandoned,
        (Outcome::Cancelled, EndCause::SessionEnded) => ModelEnd::SessionEnded,
        (Outcome::Cancelled, cause) => panic!("nothing cancels by {cause:?}"),
    }
}
