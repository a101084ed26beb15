//! The prompts that run on this node: one task, one log writer and any number of readers each.

mod cancel;
pub(crate) mod log;
pub(crate) mod prompt;
pub(crate) mod reader;
pub(crate) mod task;
pub(crate) mod writer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Principal, PromptId};

use crate::running::prompt::RunningPrompt;

/// The registry of running prompts, oldest first: ids sort by creation time.
#[derive(Default)]
pub(crate) struct RunningPrompts {
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    closed: bool,
    prompts: BTreeMap<PromptId, Arc<RunningPrompt>>,
}

impl RunningPrompts {
    /// Adds a prompt. False if the registry is closed.
    pub(crate) fn insert(&self, prompt: &Arc<RunningPrompt>) -> bool {
        let mut registry = self.registry();
        if !registry.closed {
            registry.prompts.insert(prompt.id, prompt.clone());
        }
        !registry.closed
    }

    pub(crate) fn remove(&self, id: PromptId) {
        self.registry().prompts.remove(&id);
    }

    pub(crate) fn get(&self, id: PromptId) -> Option<Arc<RunningPrompt>> {
        self.registry().prompts.get(&id).cloned()
    }

    /// The running prompt with this id if it belongs to the principal.
    pub(crate) fn get_of(&self, principal: &Principal, id: PromptId) -> Option<Arc<RunningPrompt>> {
        self.get(id).filter(|prompt| prompt.principal == *principal)
    }

    pub(crate) fn len(&self) -> usize {
        self.registry().prompts.len()
    }

    /// All running prompts, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<RunningPrompt>> {
        self.registry().prompts.values().cloned().collect()
    }

    /// Refuses further prompts, and returns those that still run.
    pub(crate) fn close(&self) -> Vec<Arc<RunningPrompt>> {
        self.registry().closed = true;
        self.all()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.registry().closed
    }

    /// Every change under the lock is complete before anything can panic, so a poisoned lock is still sound.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
