//! What the model is asked: instructions, the conversation so far, the question.

use domain::{Principal, PromptId, Request, StorageError};

use crate::Engine;

/// The session's last messages are its memory: so many questions with their answers.
const REMEMBERED_TURNS: usize = 5;

const INSTRUCTIONS: &str = "You are Wellspring, an assistant that answers questions about a team's own code and \
    documents. Answer briefly and exactly, in the language of the question. Put code into fenced blocks. If you \
    do not know something, say so instead of guessing.";

const NOTHING_FOUND: &str = "\n\nNo passages of the team's documents were found for this question. If the answer \
    depends on them, say that nothing was found.";

impl Engine {
    pub(crate) async fn compose(
        &self,
        who: &Principal,
        question: String,
        follows: Option<PromptId>,
    ) -> Result<Request, StorageError> {
        let history = match follows {
            Some(last) => self.shared.ports.history.thread(who, last, REMEMBERED_TURNS).await?,
            None => Vec::new(),
        };
        Ok(Request {
            system: format!("{INSTRUCTIONS}{NOTHING_FOUND}"),
            passages: Vec::new(),
            history,
            question,
            max_tokens: self.shared.limits.max_tokens,
            temperature: self.shared.temperature,
        })
    }
}
