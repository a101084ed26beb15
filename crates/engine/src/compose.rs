//! What the model is asked: instructions, the passages that fit, the conversation so far, the question.

use std::sync::Arc;

use domain::{Hit, Principal, PromptId, Provider, Request, StorageError, Turn};

use crate::{Engine, cut};

/// The session's last messages are its memory: so many questions with their answers.
const REMEMBERED_TURNS: usize = 5;

const INSTRUCTIONS: &str = "You are Wellspring, an assistant that answers questions about a team's own code and \
    documents. Answer briefly and exactly, in the language of the question. Put code into fenced blocks. If you \
    do not know something, say so instead of guessing.";

const FROM_PASSAGES: &str = "\n\nPassages of the team's documents, each under its number, come with the question. \
    Answer in whole sentences, from the passages alone. Behind a sentence put the number of the passage that it is \
    from, like [1]. If the answer is not in them, say that the documents do not tell.";

const NO_PASSAGES: &str = "\n\nNo passages of the team's documents were found for this question. If the answer \
    depends on them, say that nothing was found.";

impl Engine {
    /// The conversation that a prompt goes on from.
    pub(crate) async fn remember(
        &self,
        who: &Principal,
        follows: Option<PromptId>,
    ) -> Result<Vec<Turn>, StorageError> {
        match follows {
            Some(last) => self.shared.ports.history.thread(who, last, REMEMBERED_TURNS).await,
            None => Ok(Vec::new()),
        }
    }

    /// The question with what was found for it; `query` is what was looked for.
    pub(crate) fn compose(
        &self,
        question: String,
        history: Vec<Turn>,
        query: &str,
        found: Vec<Hit>,
        provider: &Arc<dyn Provider>,
    ) -> Request {
        let request = Request {
            system: format!("{INSTRUCTIONS}{FROM_PASSAGES}"),
            passages: Vec::new(),
            history,
            question,
            max_tokens: self.shared.limits.max_tokens,
            temperature: self.shared.answering.temperature,
        };
        let room = provider.room(&request).unwrap_or(0).min(self.shared.answering.context_tokens);
        let found = found.into_iter().map(|hit| hit.passage).collect();
        let passages = cut::fit(found, query, room, |text| provider.count_tokens(text));
        if passages.is_empty() {
            return Request { system: format!("{INSTRUCTIONS}{NO_PASSAGES}"), ..request };
        }
        Request { passages, ..request }
    }
}
