//! What an answer came from: the part of a log that both of this dialect's answers tell beside the text.

use std::time::Duration;

use domain::{Event, ModelId, RetrievedPassages, SearchScope, Step, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::source::{Source, sources};

/// Where passages were looked for, what was found, who answered and since when.
pub(super) struct Basis {
    pub(super) mode: Mode,
    passages: RetrievedPassages,
    model: Option<ModelId>,
    accepted_at: Timestamp,
}

impl Basis {
    pub(super) fn new() -> Self {
        Self {
            mode: mode(&SearchScope::default()),
            passages: RetrievedPassages::default(),
            model: None,
            accepted_at: Timestamp::MIN,
        }
    }

    pub(super) fn take(&mut self, event: &Event) {
        match &event.step {
            Step::Accepted(accepted) => {
                self.mode = mode(&accepted.question.scope);
                self.model = Some(accepted.first_choice.clone());
                self.accepted_at = event.at;
            }
            Step::Passages(passages) => self.passages.clone_from(passages),
            Step::Started(model) => self.model = Some(model.clone()),
            _ => {}
        }
    }

    /// The passages that were in the prompt.
    pub(super) fn sources(&self) -> Vec<Source> {
        sources(&self.passages.in_prompt)
    }

    /// About the answer, if it came to its end then.
    pub(super) fn metadata(&self, ended_at: Timestamp) -> Metadata<'_> {
        Metadata {
            query_time_ms: millis(ended_at.since(self.accepted_at)),
            chunks_retrieved: self.passages.found,
            model: self.model.as_ref().map_or("", |model| &*model.model),
        }
    }
}

/// About an answer, beside its words and sources.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ResponseMetadata")]
pub(crate) struct Metadata<'a> {
    /// Total response time in milliseconds
    query_time_ms: f64,
    /// Number of chunks considered
    chunks_retrieved: u32,
    /// LLM model used
    model: &'a str,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum Mode {
    General,
    SelectedText,
}

/// What a scope is called.
pub(super) fn mode(scope: &SearchScope) -> Mode {
    match scope {
        SearchScope::Knowledge(_) => Mode::General,
        SearchScope::Selection(_) => Mode::SelectedText,
    }
}

/// Whole microseconds, so that no digit is made up.
#[expect(clippy::cast_precision_loss, reason = "a double has the microseconds of centuries")]
fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
