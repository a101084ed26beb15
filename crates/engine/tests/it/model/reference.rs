//! What the engine ought to do, in plain data: no tasks, no locks, no log.

use std::collections::BTreeMap;

use domain::FailureKind;
use tokio::time::Instant;

use crate::world::{IDLE, RESUME, STALL, TOTAL, limits};

/// Everything there is.
pub(crate) struct Reference {
    pub(crate) sessions: Vec<Session>,
    pub(crate) prompts: Vec<Prompt>,
}

pub(crate) struct Session {
    pub(crate) last_active: Instant,
    pub(crate) ended: bool,
    /// The latest prompt under each key.
    keys: BTreeMap<u8, usize>,
    pub(crate) prompt_count: u64,
}

pub(crate) struct Prompt {
    pub(crate) session: usize,
    pub(crate) question: u8,
    pub(crate) texts: Vec<String>,
    pub(crate) end: Option<End>,
    pub(crate) readers: usize,
    lapses_at: Instant,
    last_token_at: Option<Instant>,
    times_out_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// A bound cut an answer that had begun.
    CutShort,
    Cancelled,
    Abandoned,
    SessionEnded,
    Failed(FailureKind),
}

/// What asking leads to. Prompts are named by their place in `prompts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Started,
    Joined(usize),
    KeyReused,
    NotUsable,
    Busy(usize),
    Overloaded,
}

impl Reference {
    pub(crate) fn new(sessions: usize, now: Instant) -> Self {
        let session = || Session { last_active: now, ended: false, keys: BTreeMap::new(), prompt_count: 0 };
        Self { sessions: (0..sessions).map(|_| session()).collect(), prompts: Vec::new() }
    }

    pub(crate) fn ask(&mut self, session: usize, question: u8, key: Option<u8>, now: Instant) -> Answer {
        if let Some(&earlier) = key.and_then(|key| self.sessions[session].keys.get(&key)) {
            if self.prompts[earlier].question != question {
                return Answer::KeyReused;
            }
            if !self.prompts[earlier].end.is_some_and(End::may_be_retried) {
                self.join(earlier, now);
                return Answer::Joined(earlier);
            }
        }
        if !self.is_alive(session, now) {
            return Answer::NotUsable;
        }
        if let Some(running) = self.running_in(session) {
            if self.prompts[running].readers > 0 {
                return Answer::Busy(running);
            }
            self.end(running, End::Abandoned, now);
        }
        if self.running().count() == limits().concurrent_streams {
            let oldest_unread = self.running().find(|prompt| self.prompts[*prompt].readers == 0);
            let Some(yielding) = oldest_unread else { return Answer::Overloaded };
            self.end(yielding, End::Abandoned, now);
        }
        let entry = &mut self.sessions[session];
        entry.last_active = now;
        entry.prompt_count += 1;
        if let Some(key) = key {
            entry.keys.insert(key, self.prompts.len());
        }
        self.prompts.push(Prompt {
            session,
            question,
            texts: Vec::new(),
            end: None,
            readers: 1,
            lapses_at: now,
            last_token_at: None,
            times_out_at: now + TOTAL,
        });
        Answer::Started
    }

    /// Somebody reads a prompt, running or ended.
    pub(crate) fn join(&mut self, prompt: usize, now: Instant) {
        if self.prompts[prompt].end.is_none() {
            self.prompts[prompt].readers += 1;
        }
        self.touch(self.prompts[prompt].session, now);
    }

    /// A reader of a running prompt leaves.
    pub(crate) fn leave(&mut self, prompt: usize, now: Instant) {
        let prompt = &mut self.prompts[prompt];
        prompt.readers -= 1;
        prompt.lapses_at = prompt.lapses_at.max(now + RESUME);
    }

    pub(crate) fn token(&mut self, prompt: usize, text: String, now: Instant) {
        self.prompts[prompt].texts.push(text);
        self.prompts[prompt].last_token_at = Some(now);
    }

    pub(crate) fn end(&mut self, prompt: usize, end: End, now: Instant) {
        self.prompts[prompt].end = Some(end);
        let session = &mut self.sessions[self.prompts[prompt].session];
        session.last_active = session.last_active.max(now);
    }

    /// Lets time pass: what is due by `now` happens, each at its own time.
    pub(crate) fn pass(&mut self, now: Instant) {
        for prompt in self.running().collect::<Vec<_>>() {
            if let Some((at, end)) = self.prompts[prompt].due().filter(|(at, _)| *at <= now) {
                self.end(prompt, end, at);
            }
        }
    }

    /// When something will happen by itself next.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let expiries = self.sessions.iter().map(|session| session.last_active + IDLE);
        let ends = self.running().filter_map(|prompt| self.prompts[prompt].due()).map(|(at, _)| at);
        ends.chain(expiries).filter(|due| *due > now).min()
    }

    pub(crate) fn touch(&mut self, session: usize, now: Instant) {
        if self.is_alive(session, now) {
            self.sessions[session].last_active = now;
        }
    }

    pub(crate) fn is_alive(&self, session: usize, now: Instant) -> bool {
        let entry = &self.sessions[session];
        !entry.ended && (self.running_in(session).is_some() || entry.last_active + IDLE > now)
    }

    pub(crate) fn running_in(&self, session: usize) -> Option<usize> {
        self.running().find(|prompt| self.prompts[*prompt].session == session)
    }

    /// The running prompts, the oldest first.
    pub(crate) fn running(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.prompts.len()).filter(|prompt| self.prompts[*prompt].end.is_none())
    }
}

impl Prompt {
    /// What ends it if nothing else happens, and when.
    fn due(&self) -> Option<(Instant, End)> {
        let out_of_time =
            if self.texts.is_empty() { End::Failed(FailureKind::SilentAtStart) } else { End::CutShort };
        let abandoned = (self.readers == 0).then_some((self.lapses_at, End::Abandoned));
        let stalled = self.last_token_at.map(|at| (at + STALL, End::Failed(FailureKind::Stalled)));
        let ends = [Some((self.times_out_at, out_of_time)), abandoned, stalled];
        ends.into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl End {
    fn may_be_retried(self) -> bool {
        match self {
            Self::Abandoned => true,
            Self::Failed(kind) => kind.retryable(),
            Self::Done | Self::CutShort | Self::Cancelled | Self::SessionEnded => false,
        }
    }
}
