//! What is looked for: the question, or, if it goes on from an earlier one, a query that stands alone. The model is still
//! asked the question, with the conversation beside it.

use std::sync::Arc;
use std::time::Instant;

use domain::{Provider, Question, SearchScope, Stage, StageName, Step, Turn};

use crate::halt::Halts;
use crate::way::Stop;
use crate::writer::Writer;
use crate::{Engine, Rewriting, follow_up, retrieve, round};

impl Engine {
    /// What to look for. If it is not the question itself, the log tells.
    pub(crate) async fn rewrite(
        &self,
        question: &Question,
        conversation: &[Turn],
        provider: &Arc<dyn Provider>,
        halts: &mut Halts<'_>,
        writer: &mut Writer,
    ) -> Result<String, Stop> {
        let began = Instant::now();
        let Some(by_rule) = self.by_rule(question, conversation) else { return Ok(question.text.clone()) };
        writer.append(&mut vec![Step::Stage(Stage::Began(StageName::Rewriting))]).await?;
        let by_model = match self.shared.answering.rewriting {
            Rewriting::Model => {
                halts.unless(round::standalone(&**provider, &question.text, conversation)).await?
            }
            Rewriting::Rule | Rewriting::Off => None,
        };
        let query = by_model.unwrap_or(by_rule);
        let took = retrieve::in_microseconds(began.elapsed());
        let ended = Stage::Ended { name: StageName::Rewriting, count: 0, took };
        writer.append(&mut vec![Step::Rewritten(query.as_str().into()), Step::Stage(ended)]).await?;
        Ok(query)
    }

    /// What the rule makes of a question; none where it stands alone, and where better words would not help:
    /// to find nothing, or to find a selection.
    fn by_rule(&self, question: &Question, conversation: &[Turn]) -> Option<String> {
        let may_help = self.shared.answering.rewriting != Rewriting::Off
            && matches!(question.scope, SearchScope::Knowledge(_))
            && !self.shared.ports.retriever.is_empty();
        may_help.then(|| follow_up::standalone(&question.text, conversation))?
    }
}
