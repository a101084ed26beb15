//! The provenance of an answer: what the whole and the streamed answer of this dialect report beside the text.

use std::time::Duration;

use domain::{Event, ModelId, RetrievedPassages, SearchScope, Step, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::source::{SourceWire, sources};

/// Folds a log into the search scope, the passages, the model and the start of the answer.
pub(super) struct Provenance {
    pub(super) mode: ModeWire,
    passages: RetrievedPassages,
    model: Option<ModelId>,
    accepted_at: Timestamp,
}

impl Provenance {
    pub(super) fn new() -> Self {
        Self {
            mode: mode(&SearchScope::default()),
            passages: RetrievedPassages::default(),
            model: None,
            accepted_at: Timestamp::MIN,
        }
    }

    pub(super) fn push(&mut self, event: &Event) {
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

    /// The passages in the prompt.
    pub(super) fn sources(&self) -> Vec<SourceWire> {
        sources(&self.passages.in_prompt)
    }

    /// The metadata of an answer that ended at this time.
    pub(super) fn metadata(&self, ended_at: Timestamp) -> AnswerMetadataWire<'_> {
        AnswerMetadataWire {
            query_time_ms: millis(ended_at.since(self.accepted_at)),
            chunks_retrieved: self.passages.found,
            model: self.model.as_ref().map_or("", |model| &*model.model),
        }
    }
}

/// Metadata of an answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ResponseMetadata")]
pub(crate) struct AnswerMetadataWire<'a> {
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
pub(super) enum ModeWire {
    General,
    SelectedText,
}

/// The mode of a search scope.
pub(super) fn mode(scope: &SearchScope) -> ModeWire {
    match scope {
        SearchScope::Knowledge(_) => ModeWire::General,
        SearchScope::Selection(_) => ModeWire::SelectedText,
    }
}

/// Milliseconds with whole microseconds, which are exact.
#[expect(clippy::cast_precision_loss, reason = "a double has the microseconds of centuries")]
fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
