//! Prompts that have ended for their readers, but whose ends the history has not taken yet. Their logs are
//! still among the running ones, with the end that readers were told.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{Principal, PromptId};

/// The prompts that wait to be folded.
#[derive(Default)]
pub(crate) struct Unfinished {
    prompts: Mutex<HashMap<PromptId, Principal>>,
}

impl Unfinished {
    pub(crate) fn add(&self, who: Principal, prompt: PromptId) {
        self.prompts().insert(prompt, who);
    }

    pub(crate) fn all(&self) -> Vec<(Principal, PromptId)> {
        self.prompts().iter().map(|(prompt, who)| (who.clone(), *prompt)).collect()
    }

    pub(crate) fn has(&self, who: &Principal, prompt: PromptId) -> bool {
        self.prompts().get(&prompt) == Some(who)
    }

    /// Those of one owner.
    pub(crate) fn of(&self, who: &Principal) -> HashSet<PromptId> {
        let prompts = self.prompts();
        prompts.iter().filter(|(_, owner)| *owner == who).map(|(prompt, _)| *prompt).collect()
    }

    pub(crate) fn remove(&self, prompt: PromptId) {
        self.prompts().remove(&prompt);
    }

    fn prompts(&self) -> MutexGuard<'_, HashMap<PromptId, Principal>> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    #[test]
    fn a_prompt_waits_under_its_owners_name_until_it_is_folded() {
        let (unfinished, prompt) = (Unfinished::default(), PromptId::new(Timestamp::from_micros(1)));
        let stranger = Principal { tenant: "stranger".to_owned() };
        unfinished.add(Principal::local(), prompt);
        assert_eq!(unfinished.all(), [(Principal::local(), prompt)]);
        assert!(unfinished.has(&Principal::local(), prompt) && !unfinished.has(&stranger, prompt));
        unfinished.remove(prompt);
        assert!(unfinished.all().is_empty() && !unfinished.has(&Principal::local(), prompt));
    }
}
