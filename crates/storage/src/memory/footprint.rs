//! Estimates of the memory that logs and sessions take, in bytes.

use domain::{Accepted, Citation, Outcome, Passage, SearchScope, Session, Step};

use super::state::StoredSession;

/// A batch beside its events: its entry in the log, and the headers of its allocations.
pub(super) const BATCH_BYTES: usize = 64;

/// The heap memory of a step.
pub(super) fn step(step: &Step) -> usize {
    match step {
        Step::Text(text) | Step::Reasoning(text) => text.len(),
        Step::Accepted(accepted) => size_of::<Accepted>() + question(accepted),
        Step::ToolCall(call) => call.id.len() + call.name.len() + call.arguments.len(),
        Step::Ended(ended) => match &ended.outcome {
            Outcome::Failed(failure) => failure.message.len(),
            Outcome::Done(_) | Outcome::Cancelled => 0,
        },
        Step::Passages(passages) => passages.in_prompt.iter().map(passage).sum(),
        Step::Citations(citations) => citations.iter().map(citation).sum(),
        Step::Rewritten(query) => query.len(),
        Step::Stage(_) | Step::Started(_) | Step::Usage(_) => 0,
    }
}

fn question(accepted: &Accepted) -> usize {
    let question = &accepted.question;
    let scope: usize = match &question.scope {
        SearchScope::Knowledge(filters) => {
            filters.values().flatten().map(|value| value.len() + BATCH_BYTES).sum()
        }
        SearchScope::Selection(text) => text.len(),
    };
    let texts = [Some(&question.text), question.provider.as_ref(), accepted.key.as_ref()];
    scope + texts.into_iter().flatten().map(String::len).sum::<usize>()
}

fn passage(passage: &Passage) -> usize {
    let names = [&passage.repo_url, &passage.file_path, &passage.url, &passage.section, &passage.subsection];
    let names: usize = names.into_iter().flatten().map(String::len).sum();
    size_of::<Passage>() + passage.title.len() + passage.text.len() + names
}

fn citation(citation: &Citation) -> usize {
    size_of::<Citation>() + citation.quote.as_ref().map_or(0, String::len)
}

/// A session as it was created.
pub(super) fn session(session: &Session) -> usize {
    let context: usize =
        session.context.iter().map(|(name, value)| name.len() + value.len() + BATCH_BYTES).sum();
    size_of::<StoredSession>() + session.owner.as_ref().map_or(0, String::len) + context
}
