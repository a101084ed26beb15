//! The steps of a sequence, and how they are played on the engine beside the reference model.

use std::time::Duration;

use domain::{
    CancelReason, Clock, EndCause, Ended, Event, Failure, FailureKind, FinishReason, Outcome, PromptId,
    PromptStatus, Rejection, SessionId, SessionStatus,
};
use engine::Reader;
use proptest::prelude::*;
use testing::{ManualCall, PausedClock};
use tokio::time::{Instant, sleep};

use super::reference::{Answer, End, Reference};
use crate::places::Place;
use crate::world::{World, check_shape, end_of, limits, read_all, read_now, text_of};

const SESSIONS: usize = 4;

/// Within this time after a step nothing may fall due: a refused ask waits that long for a reader to leave.
const QUIET: Duration = Duration::from_millis(60);

/// So often the engine may be looked at until it has done what it should have.
const PATIENCE: usize = 20_000;

/// Numbers choose among what is there, modulo its count.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Ask { session: usize, question: u8, key: Option<u8> },
    Tokens { prompt: usize, count: usize },
    Finish { prompt: usize },
    Fail { prompt: usize, kind: FailureKind },
    Panic { prompt: usize },
    Leave { reader: usize },
    Resume { prompt: usize },
    Cancel { prompt: usize },
    EndSession { session: usize },
    Pass { time: Duration },
    Restart { crash: bool },
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let number = 0..1_000_usize;
    let kind = prop::sample::select(vec![FailureKind::Unavailable, FailureKind::Refused, FailureKind::Died]);
    prop_oneof![
        8 => (0..SESSIONS, 0..2_u8, prop::option::of(0..2_u8))
            .prop_map(|(session, question, key)| Step::Ask { session, question, key }),
        6 => (number.clone(), 1..100_usize).prop_map(|(prompt, count)| Step::Tokens { prompt, count }),
        3 => number.clone().prop_map(|prompt| Step::Finish { prompt }),
        2 => (number.clone(), kind).prop_map(|(prompt, kind)| Step::Fail { prompt, kind }),
        1 => number.clone().prop_map(|prompt| Step::Panic { prompt }),
        5 => number.clone().prop_map(|reader| Step::Leave { reader }),
        4 => number.clone().prop_map(|prompt| Step::Resume { prompt }),
        2 => number.clone().prop_map(|prompt| Step::Cancel { prompt }),
        1 => (0..SESSIONS).prop_map(|session| Step::EndSession { session }),
        4 => (1..40_000_u64).prop_map(|millis| Step::Pass { time: Duration::from_millis(millis) }),
        1 => prop::bool::ANY.prop_map(|crash| Step::Restart { crash }),
        1 => (1..4_000_u64).prop_map(|seconds| Step::Pass { time: Duration::from_secs(seconds) }),
    ]
}

/// A sequence while it is played.
pub(crate) struct Play {
    place: Box<dyn Place>,
    clock: PausedClock,
    world: World,
    reference: Reference,
    sessions: Vec<SessionId>,
    prompts: Vec<Played>,
    readers: Vec<Watched>,
}

/// The engine's side of a prompt of the reference model.
struct Played {
    id: PromptId,
    call: Option<ManualCall>,
    /// All that any reader has seen of it.
    seen: Vec<Event>,
}

struct Watched {
    prompt: usize,
    reader: Reader,
    /// How many events it has read.
    read: usize,
    is_stake: bool,
}

impl Play {
    pub(crate) async fn new(place: Box<dyn Place>) -> Self {
        let clock = PausedClock::new();
        let world = World::at(clock, place.open(clock.now()), limits());
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(world.session().await);
        }
        let reference = Reference::new(SESSIONS, Instant::now());
        Self { place, clock, world, reference, sessions, prompts: Vec::new(), readers: Vec::new() }
    }

    pub(crate) async fn step(&mut self, step: &Step) {
        self.wait_for_quiet().await;
        match *step {
            Step::Ask { session, question, key } => self.ask(session, question, key).await,
            Step::Tokens { prompt, count } => self.tokens(prompt, count),
            Step::Finish { prompt } => self.provider_ends(prompt, End::Done, ManualCall::finish),
            Step::Fail { prompt, kind } => self.provider_ends(prompt, End::Failed(kind), |call| {
                call.fail(Failure::new(kind, "as the step says"));
            }),
            Step::Panic { prompt } => {
                self.provider_ends(prompt, End::Failed(FailureKind::Internal), ManualCall::panic);
            }
            Step::Leave { reader } => self.leave(reader),
            Step::Resume { prompt } => self.resume(prompt).await,
            Step::Cancel { prompt } => self.cancel(prompt).await,
            Step::EndSession { session } => self.end_session(session).await,
            Step::Pass { time } => sleep(time).await,
            Step::Restart { crash } => self.restart(crash).await,
        }
        self.reference.pass(Instant::now());
        self.compare().await;
    }

    /// Ends what still runs by shutting down, and reads every log once more.
    pub(crate) async fn end(mut self) {
        self.world.engine.shutdown().await;
        for prompt in self.reference.running().collect::<Vec<_>>() {
            self.reference.end(prompt, End::Failed(FailureKind::Interrupted), Instant::now());
        }
        self.compare().await;
        for (prompt, played) in self.prompts.iter().enumerate() {
            let mut replay = self.world.engine.read(&self.world.who, played.id).await.expect("an ended log");
            let log = read_all(&mut replay).await;
            assert!(log.starts_with(&played.seen), "a replay is what was seen");
            let expected = self.reference.prompts[prompt].end.expect("everything has ended");
            assert_eq!(as_end(&end_of(&log)), expected);
            assert_eq!(text_of(&log), self.reference.prompts[prompt].texts.concat());
        }
        assert!(self.world.calls.try_next().is_none(), "one call per prompt");
    }

    /// Skips over a moment at which something falls due by itself, so that a step never races with it.
    async fn wait_for_quiet(&mut self) {
        while self.reference.next_due(Instant::now()).is_some_and(|due| due <= Instant::now() + QUIET) {
            sleep(QUIET).await;
            self.reference.pass(Instant::now());
        }
        self.compare().await;
    }

    async fn ask(&mut self, session: usize, question: u8, key: Option<u8>) {
        let asked_at = Instant::now();
        let (text, key_text) = (format!("question {question}"), key.map(|key| format!("key {key}")));
        let answer = self.world.ask(self.sessions[session], &text, key_text.as_deref()).await;
        let expected = self.reference.ask(session, question, key, asked_at);
        match (answer, expected) {
            (Ok(reader), Answer::Started) => {
                let call = Some(self.world.calls.next().await);
                let prompt = self.prompts.len();
                self.prompts.push(Played { id: reader.prompt(), call, seen: Vec::new() });
                self.readers.push(Watched { prompt, reader, read: 0, is_stake: true });
            }
            (Ok(reader), Answer::Joined(prompt)) => {
                assert_eq!(reader.prompt(), self.prompts[prompt].id, "the prompt that has the key");
                self.watch(prompt, reader);
            }
            (Err(Rejection::KeyReused), Answer::KeyReused)
            | (Err(Rejection::SessionNotUsable), Answer::NotUsable)
            | (Err(Rejection::Overloaded { .. }), Answer::Overloaded) => {}
            (Err(Rejection::PromptInFlight(id)), Answer::Busy(prompt)) => {
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
            let room = limits().max_tokens as usize - self.reference.prompts[prompt].texts.len();
            if room == 0 {
                return;
            }
            self.prompts[prompt].call.as_ref().expect("it runs").text(&text);
            self.reference.token(prompt, text, Instant::now());
        }
    }

    fn provider_ends(&mut self, prompt: usize, end: End, act: impl FnOnce(ManualCall)) {
        let Some(prompt) = self.pick_running(prompt) else { return };
        let is_empty = self.reference.prompts[prompt].texts.is_empty();
        let end = if end == End::Done && is_empty { End::Failed(FailureKind::EmptyAnswer) } else { end };
        act(self.prompts[prompt].call.take().expect("it runs"));
        self.reference.end(prompt, end, Instant::now());
    }

    fn leave(&mut self, reader: usize) {
        if self.readers.is_empty() {
            return;
        }
        let watched = self.readers.swap_remove(reader % self.readers.len());
        if watched.is_stake && self.reference.prompts[watched.prompt].end.is_none() {
            self.reference.leave(watched.prompt, Instant::now());
        }
    }

    async fn resume(&mut self, prompt: usize) {
        let Some(prompt) = self.pick(prompt) else { return };
        let reader =
            self.world.engine.read(&self.world.who, self.prompts[prompt].id).await.expect("a known prompt");
        self.reference.join(prompt, Instant::now());
        self.watch(prompt, reader);
    }

    async fn cancel(&mut self, prompt: usize) {
        let Some(prompt) = self.pick(prompt) else { return };
        let session = self.reference.prompts[prompt].session;
        let (id, reason) = (self.prompts[prompt].id, CancelReason::UserInitiated);
        let cancelled = self.world.engine.cancel(&self.world.who, self.sessions[session], id, reason).await;
        match self.reference.prompts[prompt].end {
            None => {
                cancelled.expect("a running prompt can be cancelled");
                self.reference.end(prompt, End::Cancelled, Instant::now());
                self.reference.touch(session, Instant::now());
            }
            Some(_) => assert!(matches!(cancelled, Err(Rejection::PromptNotFound))),
        }
    }

    async fn end_session(&mut self, session: usize) {
        self.world
            .engine
            .end_session(&self.world.who, self.sessions[session])
            .await
            .expect("a known session");
        self.reference.sessions[session].ended = true;
        if let Some(prompt) = self.reference.running_in(session) {
            self.reference.end(prompt, End::SessionEnded, Instant::now());
        }
    }

    /// Another server over the same store, after this one was stopped, or died.
    async fn restart(&mut self, crash: bool) {
        if !self.place.survives() {
            return;
        }
        if crash {
            self.place.kill().await;
        } else {
            self.world.engine.shutdown().await;
            self.place.close().await;
        }
        self.readers.clear();
        for played in &mut self.prompts {
            played.call = None;
        }
        for prompt in self.reference.running().collect::<Vec<_>>() {
            self.reference.end(prompt, End::Failed(FailureKind::Interrupted), Instant::now());
        }
        self.world = World::at(self.clock, self.place.open(self.clock.now()), limits());
    }

    fn watch(&mut self, prompt: usize, reader: Reader) {
        let is_stake = self.reference.prompts[prompt].end.is_none();
        self.readers.push(Watched { prompt, reader, read: 0, is_stake });
    }

    fn pick(&self, number: usize) -> Option<usize> {
        (!self.prompts.is_empty()).then(|| number % self.prompts.len())
    }

    fn pick_running(&self, number: usize) -> Option<usize> {
        let running: Vec<_> = self.reference.running().collect();
        (!running.is_empty()).then(|| running[number % running.len()])
    }

    /// Compares everything that can be seen of the engine with the reference model.
    async fn compare(&mut self) {
        for prompt in 0..self.prompts.len() {
            self.settle(prompt).await;
        }
        self.compare_readers().await;
        for session in 0..SESSIONS {
            let kept =
                self.world.engine.session(&self.world.who, self.sessions[session]).await.expect("known");
            assert_eq!(kept.prompt_count, self.reference.sessions[session].prompt_count);
            let is_active = self.world.engine.status_of(&kept).0 == SessionStatus::Active;
            assert_eq!(
                is_active,
                self.reference.is_alive(session, Instant::now()),
                "liveness of session {session}"
            );
            let running = self.reference.running_in(session).map(|prompt| self.prompts[prompt].id);
            assert_eq!(kept.running, running);
        }
    }

    /// Waits until the engine has done what the reference model did at once, and fails if it never does.
    async fn settle(&mut self, prompt: usize) {
        let expected = &self.reference.prompts[prompt];
        let status = expected.end.map_or(PromptStatus::InFlight, End::status);
        let wanted = (status, expected.texts.len() as u64);
        let mut got = None;
        for _ in 0..PATIENCE {
            let kept = self
                .world
                .engine
                .prompt(&self.world.who, self.prompts[prompt].id)
                .await
                .expect("a known prompt");
            got = Some((kept.status, kept.token_count));
            if got == Some(wanted) {
                let call = self.prompts[prompt].call.as_ref();
                assert!(
                    call.is_none_or(|call| call.is_aborted() == expected.end.is_some()),
                    "one call while it runs"
                );
                return;
            }
            give_way().await;
        }
        panic!("prompt {prompt} is {got:?}, expected {wanted:?}");
    }

    /// Every reader has seen what the model says, and all readers of a prompt have seen the same.
    async fn compare_readers(&mut self) {
        for watched in &mut self.readers {
            let has_ended = self.reference.prompts[watched.prompt].end.is_some();
            let (mut events, mut is_end) = read_now(&mut watched.reader);
            // An end is in the store a moment before it is visible.
            for _ in 0..PATIENCE {
                if is_end == has_ended {
                    break;
                }
                give_way().await;
                let (more, ended) = read_now(&mut watched.reader);
                events.extend(more);
                is_end = ended;
            }
            let played = &mut self.prompts[watched.prompt];
            for event in events {
                match played.seen.get(watched.read) {
                    Some(seen) => assert_eq!(*seen, event, "what was seen never changes"),
                    None => played.seen.push(event),
                }
                watched.read += 1;
            }
            check_shape(&played.seen);
            let expected = &self.reference.prompts[watched.prompt];
            assert_eq!(text_of(&played.seen[..watched.read]), expected.texts.concat());
            assert_eq!(is_end, expected.end.is_some());
            if let Some(end) = expected.end {
                assert_eq!(as_end(&end_of(&played.seen)), end);
            }
        }
    }
}

/// Lets everything else go on, also what a store does on threads of its own; a while of real time, and none
/// of the test's.
async fn give_way() {
    let waited = tokio::task::spawn_blocking(std::thread::yield_now).await;
    waited.expect("yielding does not panic");
}

impl End {
    fn status(self) -> PromptStatus {
        match self {
            Self::Done | Self::CutShort => PromptStatus::Done,
            Self::Cancelled | Self::Abandoned | Self::SessionEnded => PromptStatus::Cancelled,
            Self::Failed(_) => PromptStatus::Error,
        }
    }
}

fn as_end(ended: &Ended) -> End {
    match (&ended.outcome, ended.cause) {
        (Outcome::Failed(failure), _) => End::Failed(failure.kind),
        (Outcome::Done(FinishReason::Length), EndCause::Limit) => End::CutShort,
        (Outcome::Done(_), _) => End::Done,
        (Outcome::Cancelled, EndCause::Client(_)) => End::Cancelled,
        (Outcome::Cancelled, EndCause::Abandoned) => End::Abandoned,
        (Outcome::Cancelled, EndCause::SessionEnded) => End::SessionEnded,
        (Outcome::Cancelled, cause) => panic!("nothing cancels by {cause:?}"),
    }
}
