//! Prompts that have ended for their readers, but whose ends the history has not taken yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{Batch, Cause, Ended, Event, Principal, PromptId, Run, Step};

use super::codec;

/// The logs that wait to be folded, with the end that readers were told.
#[derive(Default)]
pub(crate) struct Unfinished {
    logs: Mutex<HashMap<PromptId, (Principal, Vec<u8>)>>,
}

impl Unfinished {
    /// Keeps the log of a prompt whose last batch was not taken. In its place stands what readers are told.
    pub(crate) fn add(&self, run: Run, mut log: Vec<u8>, last: &Batch) {
        if let Some(untaken) = last.first() {
            let told = Step::Ended(Box::new(Ended::interrupted(Cause::Journal)));
            codec::encode(&[Event { step: told, ..untaken.clone() }], &mut log);
        }
        self.logs().insert(run.prompt, (run.who, log));
    }

    pub(crate) fn all(&self) -> Vec<(Principal, PromptId, Vec<u8>)> {
        self.logs().iter().map(|(prompt, (who, log))| (who.clone(), *prompt, log.clone())).collect()
    }

    pub(crate) fn log(&self, who: &Principal, prompt: PromptId) -> Option<Vec<u8>> {
        self.logs().get(&prompt).filter(|(owner, _)| owner == who).map(|(_, log)| log.clone())
    }

    pub(crate) fn remove(&self, prompt: PromptId) {
        self.logs().remove(&prompt);
    }

    fn logs(&self) -> MutexGuard<'_, HashMap<PromptId, (Principal, Vec<u8>)>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
