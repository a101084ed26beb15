//! The prompts that run on this node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::PromptId;

use crate::live::Live;

/// Running prompts, the oldest first: ids sort by the time they were made.
#[derive(Default)]
pub(crate) struct Running {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed: bool,
    prompts: BTreeMap<PromptId, Arc<Live>>,
}

impl Running {
    /// Adds a prompt; false once closed.
    pub(crate) fn add(&self, live: &Arc<Live>) -> bool {
        let mut state = self.state();
        if !state.closed {
            state.prompts.insert(live.prompt, live.clone());
        }
        !state.closed
    }

    pub(crate) fn remove(&self, prompt: PromptId) {
        self.state().prompts.remove(&prompt);
    }

    pub(crate) fn get(&self, prompt: PromptId) -> Option<Arc<Live>> {
        self.state().prompts.get(&prompt).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.state().prompts.len()
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        self.state().prompts.values().cloned().collect()
    }

    /// Takes no more; gives out those that still run.
    pub(crate) fn close(&self) -> Vec<Arc<Live>> {
        self.state().closed = true;
        self.all()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Every change of the state is whole before anything can panic, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
