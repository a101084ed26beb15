//! The sessions and prompts in memory, and the order in which they are evicted.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use domain::{
    Claim, Ended, NewPrompt, Principal, PromptId, Run, Session, SessionId, StorageError, StorageErrorKind,
    Timestamp,
};

use super::prompt::StoredPrompt;
use super::{MemoryLimits, footprint};

pub(super) type SessionKey = (Principal, SessionId);
type PromptKey = (Principal, PromptId);

#[derive(Default)]
pub(super) struct MemoryState {
    pub(super) sessions: HashMap<SessionKey, StoredSession>,
    /// Bytes of the sessions, as they were created.
    session_bytes: usize,
    /// Every session, the longest idle first.
    idle_order: BTreeSet<(Timestamp, SessionKey)>,
    pub(super) prompts: HashMap<PromptKey, StoredPrompt>,
    /// Ended prompts, the oldest end first.
    ended: VecDeque<PromptKey>,
    /// Bytes of the ended prompts' logs.
    pub(super) ended_bytes: usize,
}

pub(super) struct StoredSession {
    pub(super) session: Session,
    /// The latest prompt under each idempotency key.
    keys: HashMap<String, PromptId>,
    last_turn: Option<PromptId>,
}

impl MemoryState {
    pub(super) fn claim(&mut self, who: &Principal, new: NewPrompt) -> Claim {
        let NewPrompt { mut accepted, at, alive_since, room } = new;
        let session_key = (who.clone(), accepted.session);
        let Some(stored) = self.sessions.get_mut(&session_key) else {
            return Claim::SessionUnknown;
        };
        if let Some(&id) = accepted.key.as_ref().and_then(|key| stored.keys.get(key)) {
            let earlier = &self.prompts[&(who.clone(), id)];
            if earlier.accepted.question != accepted.question {
                return Claim::KeyReused;
            }
            if !earlier.ended.as_ref().is_some_and(Ended::may_be_retried) {
                return Claim::Joined(id);
            }
        }
        if !stored.session.is_alive(alive_since) {
            return Claim::SessionEnded;
        }
        if let Some(running) = stored.session.running {
            return Claim::SessionBusy(running);
        }
        if !room {
            return Claim::NoRoom;
        }

        accepted.follows = accepted.follows.or(stored.last_turn);
        stored.session.running = Some(accepted.prompt);
        stored.session.set_title_once(&accepted.question.text);
        stored.session.prompt_count += 1;
        if let Some(key) = &accepted.key {
            stored.keys.insert(key.clone(), accepted.prompt);
        }
        self.touch(&session_key, at);
        let run = Run { prompt: accepted.prompt, who: who.clone() };
        self.prompts.insert((who.clone(), run.prompt), StoredPrompt::new(accepted.clone(), at));
        Claim::Started(run, accepted)
    }

    pub(super) fn running_prompt(&mut self, run: &Run) -> Result<&mut StoredPrompt, StorageError> {
        self.prompts
            .get_mut(&(run.who.clone(), run.prompt))
            .filter(|prompt| prompt.ended.is_none())
            .ok_or_else(|| StorageError::other(format!("prompt {} is not running", run.prompt)))
    }

    /// Frees the session of a prompt whose log has its terminal event.
    pub(super) fn finish(&mut self, key: PromptKey) {
        let prompt = &self.prompts[&key];
        self.ended_bytes += prompt.bytes;
        let session_key = (key.0.clone(), prompt.accepted.session);
        let ended_at = prompt.events().last().map_or(prompt.created_at, |event| event.at);
        if let Some(stored) = self.sessions.get_mut(&session_key) {
            stored.session.running = None;
            stored.session.token_count += prompt.token_count;
            if prompt.token_count > 0 {
                stored.last_turn = Some(key.1);
            }
            self.touch(&session_key, ended_at);
        }
        self.ended.push_back(key);
    }

    /// Moves a session's last activity forward.
    pub(super) fn touch(&mut self, key: &SessionKey, at: Timestamp) {
        let Some(StoredSession { session, .. }) = self.sessions.get_mut(key) else { return };
        self.idle_order.remove(&(session.last_active_at, key.clone()));
        session.last_active_at = session.last_active_at.max(at);
        self.idle_order.insert((session.last_active_at, key.clone()));
    }

    /// Inserts a session, and evicts others to make room. Fails if a prompt runs in each of them.
    pub(super) fn insert_session(
        &mut self,
        key: SessionKey,
        session: Session,
        limits: MemoryLimits,
    ) -> Result<(), StorageError> {
        let bytes = footprint::session(&session);
        while self.sessions.len() >= limits.sessions || self.session_bytes + bytes > limits.bytes {
            if !self.evict_longest_idle_session() {
                let message = "memory has no room for another session";
                return Err(StorageError::new(StorageErrorKind::Full, message));
            }
        }
        self.session_bytes += bytes;
        self.idle_order.insert((session.last_active_at, key.clone()));
        self.sessions.insert(key, StoredSession { session, keys: HashMap::new(), last_turn: None });
        Ok(())
    }

    /// Removes the sessions that were idle since a time. Returns the token counts of those that were not ended.
    pub(super) fn remove_idle_sessions(&mut self, since: Timestamp) -> Vec<u64> {
        let idle: Vec<_> = self.idle_order.iter().take_while(|(at, _)| *at < since).cloned().collect();
        let mut expired = Vec::new();
        for (_, key) in idle {
            let session = &self.sessions[&key].session;
            if session.running.is_none() {
                expired.extend(session.ended.is_none().then_some(session.token_count));
                self.remove_session(&key);
            }
        }
        expired
    }

    /// Evicts the longest idle session. False if a prompt runs in every session.
    fn evict_longest_idle_session(&mut self) -> bool {
        let idle = |(_, key): &&(Timestamp, SessionKey)| self.sessions[key].session.running.is_none();
        let Some((_, longest_idle)) = self.idle_order.iter().find(idle).cloned() else { return false };
        self.remove_session(&longest_idle);
        true
    }

    pub(super) fn remove_session(&mut self, key: &SessionKey) {
        if let Some(StoredSession { session, .. }) = self.sessions.remove(key) {
            self.idle_order.remove(&(session.last_active_at, key.clone()));
            self.session_bytes -= footprint::session(&session);
        }
    }

    pub(super) fn remove_prompts(&mut self, which: impl Fn(&Principal, &StoredPrompt) -> bool) {
        let keys: HashSet<_> = self
            .prompts
            .iter()
            .filter(|((who, _), prompt)| which(who, prompt))
            .map(|(key, _)| key.clone())
            .collect();
        self.ended.retain(|ended| !keys.contains(ended));
        keys.iter().for_each(|key| self.remove_prompt(key));
    }

    fn remove_prompt(&mut self, key: &PromptKey) {
        let Some(prompt) = self.prompts.remove(key) else { return };
        self.ended_bytes -= prompt.bytes;
        let session = self.sessions.get_mut(&(key.0.clone(), prompt.accepted.session));
        let Some((session, idempotency_key)) = session.zip(prompt.accepted.key) else { return };
        if session.keys.get(&idempotency_key) == Some(&key.1) {
            session.keys.remove(&idempotency_key);
        }
    }

    /// Evicts the logs that ended first, down to this many bytes.
    pub(super) fn evict_oldest_logs(&mut self, limit: usize) {
        while self.ended_bytes > limit {
            let Some(key) = self.ended.pop_front() else { return };
            self.remove_prompt(&key);
        }
    }
}
