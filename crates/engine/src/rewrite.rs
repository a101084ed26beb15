//! What is looked for: the question, or, if it goes on from an earlier one, a query that stands alone. The model is still
//! asked the question, with the conversation beside it.

use std::time::Instant;

use domain::{Question, Scope, Stage, StageName, Step, StorageError, Turn};

use crate::writer::Writer;
use crate::{Engine, Rewriting, follow_up, retrieve};

impl Engine {
    /// What to look for. If it is not the question itself, the log tells.
    pub(crate) async fn rewrite(
        &self,
        question: &Question,
        conversation: &[Turn],
        writer: &mut Writer,
    ) -> Result<String, StorageError> {
        let began = Instant::now();
        let rewritten = match (self.shared.answering.rewriting, &question.scope) {
            // Nobody needs better words to find nothing, or to find a selection.
            (Rewriting::Rule, Scope::Knowledge { .. }) if !self.shared.ports.retriever.is_empty() => {
                follow_up::standalone(&question.text, conversation)
            }
            _ => None,
        };
        let Some(query) = rewritten else { return Ok(question.text.clone()) };
        let took = retrieve::in_microseconds(began.elapsed());
        let ended = Stage::Ended { name: StageName::Rewriting, count: 0, took };
        let mut steps = vec![
            Step::Stage(Stage::Began(StageName::Rewriting)),
            Step::Rewritten(query.as_str().into()),
            Step::Stage(ended),
        ];
        writer.append(&mut steps).await?;
        Ok(query)
    }
}
