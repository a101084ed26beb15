//! Prompts that have ended for their readers while the history could not store the end. Their logs stay in the journal,
//! with the end that readers see.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{Principal, PromptId};

/// The prompts whose end is to be stored by the next `Journal::write_unrecorded_ends`.
#[derive(Default)]
pub(crate) struct UnrecordedEnds {
    prompts: Mutex<HashMap<PromptId, Principal>>,
}

impl UnrecordedEnds {
    pub(crate) fn add(&self, who: Principal, prompt: PromptId) {
        self.prompts().insert(prompt, who);
    }

    pub(crate) fn all(&self) -> Vec<(Principal, PromptId)> {
        self.prompts().iter().map(|(prompt, who)| (who.clone(), *prompt)).collect()
    }

    pub(crate) fn contains(&self, who: &Principal, prompt: PromptId) -> bool {
        self.prompts().get(&prompt) == Some(who)
    }

    /// The prompts of one principal.
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
    fn a_prompt_is_listed_under_its_principal_until_its_end_is_stored() {
        let (unrecorded, prompt) = (UnrecordedEnds::default(), PromptId::new(Timestamp::from_micros(1)));
        let stranger = Principal { tenant: "stranger".to_owned() };
        unrecorded.add(Principal::local(), prompt);
        assert_eq!(unrecorded.all(), [(Principal::local(), prompt)]);
        assert!(unrecorded.contains(&Principal::local(), prompt) && !unrecorded.contains(&stranger, prompt));
        unrecorded.remove(prompt);
        assert!(unrecorded.all().is_empty() && !unrecorded.contains(&Principal::local(), prompt));
    }
}
