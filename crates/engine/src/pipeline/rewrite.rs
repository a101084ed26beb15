//! The rewrite step: a follow-up question becomes a query that stands alone. Only retrieval uses the query;
//! the model is asked the question as it is, with the conversation beside it.

mod model;
pub(crate) mod rule;

use std::time::Instant;

use domain::{Question, SearchScope, Stage, StageName, Step, Turn};

use crate::RewriteMode;
use crate::pipeline::rewrite::model::rewrite_by_model;
use crate::pipeline::rewrite::rule::rewrite_by_rule;
use crate::pipeline::{Pipeline, StepError, whole_micros};

impl Pipeline<'_> {
    /// The query for retrieval. A query that is not the question itself is logged as a stage of its own.
    pub(super) async fn rewrite(
        &mut self,
        question: &Question,
        conversation: &[Turn],
    ) -> Result<String, StepError> {
        let began = Instant::now();
        let Some(by_rule) = self.by_rule(question, conversation) else { return Ok(question.text.clone()) };
        self.append(Step::Stage(Stage::Began(StageName::Rewriting))).await?;
        let by_model = match self.engine.shared.answering.rewrite_mode {
            RewriteMode::Model => {
                let rewriting = rewrite_by_model(&*self.provider, &question.text, conversation);
                self.stop.until_stopped(rewriting).await?
            }
            RewriteMode::Rule | RewriteMode::Off => None,
        };
        let query = by_model.unwrap_or(by_rule);
        let took = whole_micros(began.elapsed());
        let ended = Stage::Ended { name: StageName::Rewriting, count: 0, took };
        self.writer.append(&mut vec![Step::Rewritten(query.as_str().into()), Step::Stage(ended)]).await?;
        Ok(query)
    }

    /// The rule's rewrite. None if the question stands alone, and where a better query cannot help: rewriting
    /// is off, the passages come from a selection, or the knowledge base is empty.
    fn by_rule(&self, question: &Question, conversation: &[Turn]) -> Option<String> {
        let shared = &self.engine.shared;
        let may_help = shared.answering.rewrite_mode != RewriteMode::Off
            && matches!(question.scope, SearchScope::Knowledge(_))
            && !shared.ports.retriever.is_empty();
        may_help.then(|| rewrite_by_rule(&question.text, conversation))?
    }
}
