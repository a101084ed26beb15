//! The store in memory, with bounds: it evicts the oldest ended logs and the longest idle sessions first, and nothing
//! that runs.

mod footprint;
mod prompt;
mod state;

use std::cmp::Reverse;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use domain::{
    Batch, Claim, EndedSession, Exchange, History, Journal, NewPrompt, Principal, Prompt, PromptFilter,
    PromptId, RetentionProgress, Run, Session, SessionEnd, SessionId, Sessions, StorageError, Timestamp,
    Turn,
};

use prompt::StoredPrompt;
use state::{MemoryState, SessionKey, StoredSession};

/// The store in memory. Everything in it is gone with the process.
pub struct MemoryStore {
    limits: MemoryLimits,
    state: Mutex<MemoryState>,
}

/// The bounds of a [`MemoryStore`].
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// Bytes of ended logs, and as many bytes of sessions.
    pub bytes: usize,
    /// Number of sessions.
    pub sessions: usize,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// A poisoned lock is still good: nothing panics between two changes of the state.
    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sessions for MemoryStore {
    async fn create(&self, who: &Principal, session: Session) -> Result<(), StorageError> {
        let mut state = self.state();
        let key = (who.clone(), session.id);
        if state.sessions.contains_key(&key) {
            return Ok(());
        }
        state.insert_session(key, session, self.limits)
    }

    async fn find(&self, who: &Principal, id: SessionId) -> Result<Option<Session>, StorageError> {
        Ok(self.state().sessions.get(&(who.clone(), id)).map(|stored| stored.session.clone()))
    }

    async fn touch(
        &self,
        who: &Principal,
        id: SessionId,
        at: Timestamp,
        alive_since: Timestamp,
    ) -> Result<(), StorageError> {
        let key = (who.clone(), id);
        let mut state = self.state();
        if state.sessions.get(&key).is_some_and(|stored| stored.session.is_alive(alive_since)) {
            state.touch(&key, at);
        }
        Ok(())
    }

    async fn end(&self, who: &Principal, id: SessionId) -> Result<Option<EndedSession>, StorageError> {
        let mut state = self.state();
        let Some(StoredSession { session, .. }) = state.sessions.get_mut(&(who.clone(), id)) else {
            return Ok(None);
        };
        let end = if session.running.is_some() { SessionEnd::Cancelled } else { SessionEnd::Completed };
        let is_first = session.ended.is_none();
        session.ended.get_or_insert(end);
        Ok(Some(EndedSession { running: session.running, is_first }))
    }

    async fn alive(&self, alive_since: Timestamp) -> Result<u64, StorageError> {
        let state = self.state();
        Ok(state.sessions.values().filter(|stored| stored.session.is_alive(alive_since)).count() as u64)
    }
}

#[async_trait]
impl Journal for MemoryStore {
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        Ok(self.state().claim(who, new))
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        self.state().running_prompt(run)?.append(batch)
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        let mut state = self.state();
        state.running_prompt(&run)?.append(last)?;
        state.finish((run.who, run.prompt));
        state.evict_oldest_logs(self.limits.bytes);
        Ok(())
    }

    async fn write_unrecorded_ends(&self) -> Result<(), StorageError> {
        Ok(())
    }

    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        let state = self.state();
        let ended = state.prompts.get(&(who.clone(), id)).filter(|prompt| prompt.ended.is_some());
        Ok(ended.map(|prompt| prompt.log.clone()))
    }
}

#[async_trait]
impl History for MemoryStore {
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError> {
        Ok(self.state().prompts.get(&(who.clone(), id)).map(StoredPrompt::summary))
    }

    async fn thread(&self, who: &Principal, last: PromptId, limit: usize) -> Result<Vec<Turn>, StorageError> {
        let state = self.state();
        let mut turns = Vec::new();
        let mut next = Some(last);
        while let Some(prompt) = next.and_then(|id| state.prompts.get(&(who.clone(), id))) {
            if turns.len() == limit {
                break;
            }
            turns.extend(Turn::of(prompt.events()));
            next = prompt.accepted.follows;
        }
        turns.reverse();
        Ok(turns)
    }

    async fn conversation(
        &self,
        who: &Principal,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<Exchange>, StorageError> {
        let state = self.state();
        let prompts = state.prompts.iter().filter(|((tenant, _), _)| tenant == who);
        let ended = prompts.map(|(_, prompt)| prompt).filter(|prompt| prompt.ended.is_some());
        let mut turns: Vec<_> =
            ended.filter(|prompt| prompt.accepted.session == session && prompt.token_count > 0).collect();
        turns.sort_unstable_by_key(|prompt| prompt.accepted.prompt);
        let newest = &turns[turns.len().saturating_sub(limit)..];
        Ok(newest
            .iter()
            .filter_map(|prompt| Exchange::of(prompt.log.iter().flat_map(|batch| batch.iter())))
            .collect())
    }

    async fn sessions(
        &self,
        who: &Principal,
        before: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StorageError> {
        let state = self.state();
        let on_page = |(tenant, id): &SessionKey| tenant == who && before.is_none_or(|before| *id < before);
        let mut keys: Vec<_> = state.sessions.keys().filter(|key| on_page(key)).collect();
        keys.sort_unstable_by_key(|key| Reverse(key.1));
        Ok(keys.into_iter().take(limit).map(|key| state.sessions[key].session.clone()).collect())
    }

    async fn prompts(
        &self,
        who: &Principal,
        which: PromptFilter,
        limit: usize,
    ) -> Result<Vec<Prompt>, StorageError> {
        let state = self.state();
        let mut prompts: Vec<_> = state
            .prompts
            .iter()
            .filter(|((tenant, _), _)| tenant == who)
            .map(|(_, prompt)| prompt.summary())
            .filter(|prompt| which.session.is_none_or(|session| prompt.session == session))
            .filter(|prompt| which.status.is_none_or(|status| prompt.status == status))
            .collect();
        prompts.sort_unstable_by_key(|prompt| Reverse(prompt.id));
        prompts.truncate(limit);
        Ok(prompts)
    }

    async fn delete_session(&self, who: &Principal, id: SessionId) -> Result<bool, StorageError> {
        let mut state = self.state();
        let key = (who.clone(), id);
        if state.sessions.get(&key).is_none_or(|stored| stored.session.running.is_some()) {
            return Ok(false);
        }
        state.remove_session(&key);
        state.remove_prompts(|tenant, prompt| tenant == who && prompt.accepted.session == id);
        Ok(true)
    }

    async fn delete_older_than(&self, time: Timestamp) -> Result<RetentionProgress, StorageError> {
        let mut state = self.state();
        state.remove_prompts(|_, prompt| prompt.ended.is_some() && prompt.created_at < time);
        let expired = state.remove_idle_sessions(time);
        Ok(RetentionProgress { expired, more: false })
    }
}

#[cfg(test)]
mod tests;
