//! What the engine should do, in plain data: no tasks, no locks, no log.

use std::collections::BTreeMap;

use domain::FailureKind;
use tokio::time::Instant;

use crate::harness::{IDLE, RESUME, STALL, TOTAL, limits};

pub(crate) struct ReferenceModel {
    pub(crate) sessions: Vec<ModelSession>,
    pub(crate) prompts: Vec<ModelPrompt>,
}

pub(crate) struct ModelSession {
    pub(crate) last_active: Instant,
    pub(crate) ended: bool,
    /// The latest prompt under each key.
    keys: BTreeMap<u8, usize>,
    pub(crate) prompt_count: u64,
}

pub(crate) struct ModelPrompt {
    pub(crate) session: usize,
    pub(crate) question: u8,
    pub(crate) texts: Vec<String>,
    pub(crate) end: Option<ModelEnd>,
    pub(crate) readers: usize,
    grace_ends_at: Instant,
    last_token_at: Option<Instant>,
    times_out_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelEnd {
    Done,
    /// A limit cut an answer that had begun.
    CutShort,
    Cancelled,
    Abandoned,
    SessionEnded,
    Failed(FailureKind),
}

/// The result of a request. Prompts are given by their index in `prompts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskResult {
    Started,
    Joined(usize),
    KeyReused,
    NotUsable,
    Busy(usize),
    Overloaded,
}

impl ReferenceModel {
    pub(crate) fn new(sessions: usize, now: Instant) -> Self {
        let session =
            || ModelSession { last_active: now, ended: false, keys: BTreeMap::new(), prompt_count: 0 };
        Self { sessions: (0..sessions).map(|_| session()).collect(), prompts: Vec::new() }
    }

    pub(crate) fn ask(&mut self, session: usize, question: u8, key: Option<u8>, now: Instant) -> AskResult {
        if let Some(&earlier) = key.and_then(|key| self.sessions[session].keys.get(&key)) {
            if self.prompts[earlier].question != question {
                return AskResult::KeyReused;
            }
            if !self.prompts[earlier].end.is_some_and(ModelEnd::may_be_retried) {
                self.join(earlier, now);
                return AskResult::Joined(earlier);
            }
        }
        if !self.is_alive(session, now) {
            return AskResult::NotUsable;
        }
        if let Some(running) = self.running_in(session) {
            if self.prompts[running].readers > 0 {
                return AskResult::Busy(running);
            }
            self.end(running, ModelEnd::Abandoned, now);
        }
        if self.running().count() == limits().concurrent_streams {
            let oldest_unread = self.running().find(|prompt| self.prompts[*prompt].readers == 0);
            let Some(yielding) = oldest_unread else { return AskResult::Overloaded };
            self.end(yielding, ModelEnd::Abandoned, now);
        }
        let entry = &mut self.sessions[session];
        entry.last_active = now;
        entry.prompt_count += 1;
        if let Some(key) = key {
            entry.keys.insert(key, self.prompts.len());
        }
        self.prompts.push(ModelPrompt {
            session,
            question,
            texts: Vec::new(),
            end: None,
            readers: 1,
            grace_ends_at: now,
            last_token_at: None,
            times_out_at: now + TOTAL,
        });
        AskResult::Started
    }

    /// Opens a reader on a prompt, running or ended.
    pub(crate) fn join(&mut self, prompt: usize, now: Instant) {
        if self.prompts[prompt].end.is_none() {
            self.prompts[prompt].readers += 1;
        }
        self.touch(self.prompts[prompt].session, now);
    }

    /// Closes a reader of a running prompt.
    pub(crate) fn leave(&mut self, prompt: usize, now: Instant) {
        let prompt = &mut self.prompts[prompt];
        prompt.readers -= 1;
        prompt.grace_ends_at = prompt.grace_ends_at.max(now + RESUME);
    }

    pub(crate) fn token(&mut self, prompt: usize, text: String, now: Instant) {
        self.prompts[prompt].texts.push(text);
        self.prompts[prompt].last_token_at = Some(now);
    }

    pub(crate) fn end(&mut self, prompt: usize, end: ModelEnd, now: Instant) {
        self.prompts[prompt].end = Some(end);
        let session = &mut self.sessions[self.prompts[prompt].session];
        session.last_active = session.last_active.max(now);
    }

    /// Advances to `now`: every deadline until then takes effect at its own time.
    pub(crate) fn advance(&mut self, now: Instant) {
        for prompt in self.running().collect::<Vec<_>>() {
            if let Some((at, end)) = self.prompts[prompt].due().filter(|(at, _)| *at <= now) {
                self.end(prompt, end, at);
            }
        }
    }

    /// The next deadline after `now`.
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

    /// The running prompts, oldest first.
    pub(crate) fn running(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.prompts.len()).filter(|prompt| self.prompts[*prompt].end.is_none())
    }
}

impl ModelPrompt {
    /// The next deadline that ends the prompt, and how it ends then.
    fn due(&self) -> Option<(Instant, ModelEnd)> {
        let out_of_time = if self.texts.is_empty() {
            ModelEnd::Failed(FailureKind::SilentAtStart)
        } else {
            ModelEnd::CutShort
        };
        let abandoned = (self.readers == 0).then_some((self.grace_ends_at, ModelEnd::Abandoned));
        let stalled = self.last_token_at.map(|at| (at + STALL, ModelEnd::Failed(FailureKind::Stalled)));
        let ends = [Some((self.times_out_at, out_of_time)), abandoned, stalled];
        ends.into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl ModelEnd {
    fn may_be_retried(self) -> bool {
        match self {
            Self::Abandoned => true,
            Self::Failed(kind) => kind.retryable(),
            Self::Done | Self::CutShort | Self::Cancelled | Self::SessionEnded => false,
        }
    }
}
