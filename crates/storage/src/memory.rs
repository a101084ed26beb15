//! Storage in the process's memory, bounded: the oldest ended logs and the longest idle sessions are
//! forgotten first. What runs is never forgotten.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use domain::{
    Accepted, Batch, Citation, Claim, Ended, EndedSession, Event, Exchange, History, Journal, NewPrompt,
    Outcome, Passage, Principal, Prompt, PromptFilter, PromptId, PromptStatus, RetentionProgress, Run,
    SearchScope, Session, SessionEnd, SessionId, Sessions, Step, StorageError, Timestamp, Turn,
};

/// Keeps everything in memory.
pub struct Memory {
    limits: MemoryLimits,
    state: Mutex<State>,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// Bytes of ended logs, and again as many of sessions.
    pub bytes: usize,
    /// Sessions.
    pub sessions: usize,
}

impl Memory {
    /// An empty store.
    pub fn new(limits: MemoryLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// A panic elsewhere cannot leave the state half changed: nothing below panics between two changes.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sessions for Memory {
    async fn create(&self, who: &Principal, session: Session) -> Result<(), StorageError> {
        let mut state = self.state();
        let name = (who.clone(), session.id);
        if state.sessions.contains_key(&name) {
            return Ok(());
        }
        let weight = session_weight(&session);
        while state.sessions.len() >= self.limits.sessions || state.session_bytes + weight > self.limits.bytes
        {
            if !state.forget_longest_idle_session() {
                return Err(StorageError::other("memory has no room for another session".to_owned()));
            }
        }
        state.session_bytes += weight;
        state.idle_order.insert((session.last_active_at, name.clone()));
        state.sessions.insert(name, SessionEntry { session, keys: HashMap::new(), last_turn: None });
        Ok(())
    }

    async fn find(&self, who: &Principal, id: SessionId) -> Result<Option<Session>, StorageError> {
        Ok(self.state().sessions.get(&(who.clone(), id)).map(|entry| entry.session.clone()))
    }

    async fn touch(
        &self,
        who: &Principal,
        id: SessionId,
        at: Timestamp,
        alive_since: Timestamp,
    ) -> Result<(), StorageError> {
        let name = (who.clone(), id);
        let mut state = self.state();
        if state.sessions.get(&name).is_some_and(|entry| entry.session.is_alive(alive_since)) {
            state.touch(&name, at);
        }
        Ok(())
    }

    async fn end(&self, who: &Principal, id: SessionId) -> Result<Option<EndedSession>, StorageError> {
        let mut state = self.state();
        let Some(SessionEntry { session, .. }) = state.sessions.get_mut(&(who.clone(), id)) else {
            return Ok(None);
        };
        let end = if session.running.is_some() { SessionEnd::Cancelled } else { SessionEnd::Completed };
        let is_first = session.ended.is_none();
        session.ended.get_or_insert(end);
        Ok(Some(EndedSession { running: session.running, is_first }))
    }

    async fn alive(&self, alive_since: Timestamp) -> Result<u64, StorageError> {
        let state = self.state();
        Ok(state.sessions.values().filter(|entry| entry.session.is_alive(alive_since)).count() as u64)
    }
}

#[async_trait]
impl Journal for Memory {
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        Ok(self.state().claim(who, new))
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        self.state().running_prompt(run)?.append(batch)
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        let mut state = self.state();
        state.running_prompt(&run)?.append(last)?;
        state.fold((run.who, run.prompt));
        state.forget_oldest_logs(self.limits.bytes);
        Ok(())
    }

    async fn mend(&self) -> Result<(), StorageError> {
        Ok(())
    }

    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        let state = self.state();
        let ended = state.prompts.get(&(who.clone(), id)).filter(|prompt| prompt.ended.is_some());
        Ok(ended.map(|prompt| prompt.log.clone()))
    }
}

#[async_trait]
impl History for Memory {
    async fn prompt(&self, who: &Principal, id: PromptId) -> Result<Option<Prompt>, StorageError> {
        Ok(self.state().prompts.get(&(who.clone(), id)).map(PromptEntry::summary))
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
        let mut said: Vec<_> =
            ended.filter(|prompt| prompt.accepted.session == session && prompt.token_count > 0).collect();
        said.sort_unstable_by_key(|prompt| prompt.accepted.prompt);
        let newest = &said[said.len().saturating_sub(limit)..];
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
        let wanted = |(tenant, id): &SessionName| tenant == who && before.is_none_or(|before| *id < before);
        let mut names: Vec<_> = state.sessions.keys().filter(|name| wanted(name)).collect();
        names.sort_unstable_by_key(|name| Reverse(name.1));
        Ok(names.into_iter().take(limit).map(|name| state.sessions[name].session.clone()).collect())
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
        let name = (who.clone(), id);
        if state.sessions.get(&name).is_none_or(|entry| entry.session.running.is_some()) {
            return Ok(false);
        }
        state.forget_session(&name);
        state.forget_prompts(|tenant, prompt| tenant == who && prompt.accepted.session == id);
        Ok(true)
    }

    async fn delete_older_than(&self, time: Timestamp) -> Result<RetentionProgress, StorageError> {
        let mut state = self.state();
        state.forget_prompts(|_, prompt| prompt.ended.is_some() && prompt.created_at < time);
        let idle: Vec<_> = state.idle_order.iter().take_while(|(at, _)| *at < time).cloned().collect();
        let mut expired = Vec::new();
        for (_, name) in idle {
            let session = &state.sessions[&name].session;
            if session.running.is_none() {
                expired.extend(session.ended.is_none().then_some(session.token_count));
                state.forget_session(&name);
            }
        }
        Ok(RetentionProgress { expired, more: false })
    }
}

type SessionName = (Principal, SessionId);
type PromptName = (Principal, PromptId);

#[derive(Default)]
struct State {
    sessions: HashMap<SessionName, SessionEntry>,
    /// Bytes of the sessions, as they were made.
    session_bytes: usize,
    /// Every session, the longest idle first.
    idle_order: BTreeSet<(Timestamp, SessionName)>,
    prompts: HashMap<PromptName, PromptEntry>,
    /// Ended prompts, the oldest end first.
    ended: VecDeque<PromptName>,
    /// Bytes of the ended prompts' logs.
    ended_bytes: usize,
}

struct SessionEntry {
    session: Session,
    /// The latest prompt under each key.
    keys: HashMap<String, PromptId>,
    last_turn: Option<PromptId>,
}

struct PromptEntry {
    accepted: Box<Accepted>,
    created_at: Timestamp,
    log: Vec<Batch>,
    next_position: u64,
    token_count: u64,
    ended: Option<Ended>,
    bytes: usize,
}

impl State {
    fn claim(&mut self, who: &Principal, new: NewPrompt) -> Claim {
        let NewPrompt { mut accepted, at, alive_since, room } = new;
        let session_name = (who.clone(), accepted.session);
        let Some(entry) = self.sessions.get_mut(&session_name) else {
            return Claim::SessionUnknown;
        };
        if let Some(&id) = accepted.key.as_ref().and_then(|key| entry.keys.get(key)) {
            let earlier = &self.prompts[&(who.clone(), id)];
            if earlier.accepted.question != accepted.question {
                return Claim::KeyReused;
            }
            if !earlier.ended.as_ref().is_some_and(Ended::may_be_retried) {
                return Claim::Joined(id);
            }
        }
        if !entry.session.is_alive(alive_since) {
            return Claim::SessionEnded;
        }
        if let Some(running) = entry.session.running {
            return Claim::SessionBusy(running);
        }
        if !room {
            return Claim::NoRoom;
        }

        accepted.follows = accepted.follows.or(entry.last_turn);
        entry.session.running = Some(accepted.prompt);
        entry.session.set_title_once(&accepted.question.text);
        entry.session.prompt_count += 1;
        if let Some(key) = &accepted.key {
            entry.keys.insert(key.clone(), accepted.prompt);
        }
        self.touch(&session_name, at);
        let run = Run { prompt: accepted.prompt, who: who.clone() };
        self.prompts.insert((who.clone(), run.prompt), PromptEntry::new(accepted.clone(), at));
        Claim::Started(run, accepted)
    }

    fn running_prompt(&mut self, run: &Run) -> Result<&mut PromptEntry, StorageError> {
        self.prompts
            .get_mut(&(run.who.clone(), run.prompt))
            .filter(|prompt| prompt.ended.is_none())
            .ok_or_else(|| StorageError::other(format!("prompt {} is not running", run.prompt)))
    }

    /// Takes a prompt whose log has its terminal event off its session.
    fn fold(&mut self, name: PromptName) {
        let prompt = &self.prompts[&name];
        self.ended_bytes += prompt.bytes;
        let session_name = (name.0.clone(), prompt.accepted.session);
        let ended_at = prompt.events().last().map_or(prompt.created_at, |event| event.at);
        if let Some(entry) = self.sessions.get_mut(&session_name) {
            entry.session.running = None;
            entry.session.token_count += prompt.token_count;
            if prompt.token_count > 0 {
                entry.last_turn = Some(name.1);
            }
            self.touch(&session_name, ended_at);
        }
        self.ended.push_back(name);
    }

    fn touch(&mut self, name: &SessionName, at: Timestamp) {
        let Some(entry) = self.sessions.get_mut(name) else { return };
        self.idle_order.remove(&(entry.session.last_active_at, name.clone()));
        entry.session.last_active_at = entry.session.last_active_at.max(at);
        self.idle_order.insert((entry.session.last_active_at, name.clone()));
    }

    fn forget_longest_idle_session(&mut self) -> bool {
        let idle = |(_, name): &&(Timestamp, SessionName)| self.sessions[name].session.running.is_none();
        let Some((_, longest_idle)) = self.idle_order.iter().find(idle).cloned() else { return false };
        self.forget_session(&longest_idle);
        true
    }

    fn forget_session(&mut self, name: &SessionName) {
        if let Some(entry) = self.sessions.remove(name) {
            self.idle_order.remove(&(entry.session.last_active_at, name.clone()));
            self.session_bytes -= session_weight(&entry.session);
        }
    }

    fn forget_prompts(&mut self, which: impl Fn(&Principal, &PromptEntry) -> bool) {
        let names: HashSet<_> = self
            .prompts
            .iter()
            .filter(|((who, _), prompt)| which(who, prompt))
            .map(|(name, _)| name.clone())
            .collect();
        self.ended.retain(|ended| !names.contains(ended));
        names.iter().for_each(|name| self.forget_prompt(name));
    }

    fn forget_prompt(&mut self, name: &PromptName) {
        let Some(prompt) = self.prompts.remove(name) else { return };
        self.ended_bytes -= prompt.bytes;
        let entry = self.sessions.get_mut(&(name.0.clone(), prompt.accepted.session));
        let Some((entry, key)) = entry.zip(prompt.accepted.key) else { return };
        if entry.keys.get(&key) == Some(&name.1) {
            entry.keys.remove(&key);
        }
    }

    fn forget_oldest_logs(&mut self, limit: usize) {
        while self.ended_bytes > limit {
            let Some(name) = self.ended.pop_front() else { return };
            self.forget_prompt(&name);
        }
    }
}

impl PromptEntry {
    fn new(accepted: Box<Accepted>, created_at: Timestamp) -> Self {
        let first = accepted.clone().event(created_at);
        let (next_position, bytes) = (1, BATCH_BYTES + 2 * weight(&first.step));
        let log = vec![[first].into()];
        Self { accepted, created_at, log, next_position, token_count: 0, ended: None, bytes }
    }

    /// Appends a batch that continues the log; any other is refused.
    fn append(&mut self, batch: Batch) -> Result<(), StorageError> {
        if batch.first().is_none_or(|first| first.position != self.next_position) {
            return Err(StorageError::other(format!(
                "the log of prompt {} goes on elsewhere",
                self.accepted.prompt
            )));
        }
        for event in batch.iter() {
            self.bytes += weight(&event.step);
            match &event.step {
                Step::Text(_) => self.token_count += 1,
                Step::Ended(ended) => self.ended = Some((**ended).clone()),
                _ => {}
            }
        }
        self.bytes += BATCH_BYTES + size_of_val(&*batch);
        self.next_position += batch.len() as u64;
        self.log.push(batch);
        Ok(())
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.log.iter().flat_map(|batch| batch.iter())
    }

    fn summary(&self) -> Prompt {
        Prompt {
            id: self.accepted.prompt,
            session: self.accepted.session,
            text: self.accepted.question.text.clone(),
            key: self.accepted.key.clone(),
            status: self.ended.as_ref().map_or(PromptStatus::InFlight, |ended| (&ended.outcome).into()),
            created_at: self.created_at,
            token_count: self.token_count,
        }
    }
}

/// What a batch takes beside its events: its place in the log, and the headers of its allocations.
const BATCH_BYTES: usize = 64;

/// The bytes that a step holds outside of its event.
fn weight(step: &Step) -> usize {
    match step {
        Step::Text(text) | Step::Reasoning(text) => text.len(),
        Step::Accepted(accepted) => size_of::<Accepted>() + question_weight(accepted),
        Step::ToolCall(call) => call.id.len() + call.name.len() + call.arguments.len(),
        Step::Ended(ended) => match &ended.outcome {
            Outcome::Failed(failure) => failure.message.len(),
            Outcome::Done(_) | Outcome::Cancelled => 0,
        },
        Step::Passages(passages) => passages.in_prompt.iter().map(passage_weight).sum(),
        Step::Citations(citations) => citations.iter().map(citation_weight).sum(),
        Step::Rewritten(query) => query.len(),
        Step::Stage(_) | Step::Started(_) | Step::Usage(_) => 0,
    }
}

fn question_weight(accepted: &Accepted) -> usize {
    let question = &accepted.question;
    let scope: usize = match &question.scope {
        SearchScope::Knowledge(filters) => {
            filters.values().flatten().map(|value| value.len() + BATCH_BYTES).sum()
        }
        SearchScope::Selection(text) => text.len(),
    };
    let texts = [Some(&question.text), question.provider.as_ref(), accepted.key.as_ref()];
    scope + texts.into_iter().flatten().map(String::len).sum::<usize>()
}

fn passage_weight(passage: &Passage) -> usize {
    let names = [&passage.repo_url, &passage.file_path, &passage.url, &passage.section, &passage.subsection];
    let names: usize = names.into_iter().flatten().map(String::len).sum();
    size_of::<Passage>() + passage.title.len() + passage.text.len() + names
}

fn citation_weight(citation: &Citation) -> usize {
    size_of::<Citation>() + citation.quote.as_ref().map_or(0, String::len)
}

/// The bytes that a session was made with.
fn session_weight(session: &Session) -> usize {
    let context: usize =
        session.context.iter().map(|(name, value)| name.len() + value.len() + BATCH_BYTES).sum();
    size_of::<SessionEntry>() + session.owner.as_ref().map_or(0, String::len) + context
}

#[cfg(test)]
mod tests;
