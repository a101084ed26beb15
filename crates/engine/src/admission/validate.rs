//! Checks a request against the limits before anything else happens.

use domain::{Ask, MAX_KEY_CHARS, Rejection, SearchScope};

use crate::Engine;

impl Engine {
    pub(super) fn validate(&self, ask: &Ask) -> Result<(), Rejection> {
        let invalid = |message: String| Err(Rejection::Invalid(message));
        let question = &ask.question;
        if question.text.trim().is_empty() {
            return invalid(
                "the prompt is empty: it must have at least one character that is not white space".to_owned(),
            );
        }
        let longest = self.shared.limits.question_chars;
        let chars = question.text.chars().count();
        if chars > longest {
            return invalid(format!(
                "the prompt has {chars} characters; at most {longest} are allowed (limits.question_chars)"
            ));
        }
        if let SearchScope::Selection(text) = &question.scope {
            let chars = text.chars().count();
            if text.trim().is_empty() {
                return invalid("the selection is empty: select what the question is about".to_owned());
            }
            if chars > longest {
                return invalid(format!(
                    "the selection has {chars} characters; at most {longest} are allowed (limits.question_chars)"
                ));
            }
        }
        let key_chars = ask.key.as_ref().map(|key| key.chars().count());
        if key_chars.is_some_and(|chars| chars == 0 || chars > MAX_KEY_CHARS) {
            return invalid(format!("the idempotency key must have 1 to {MAX_KEY_CHARS} characters"));
        }
        Ok(())
    }
}
