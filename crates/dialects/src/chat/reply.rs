//! The reply to `POST /chat`: the whole answer as one JSON object, or an error reply.

use domain::{Event, Outcome, Step, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::{cancelled, failed};
use super::provenance::{AnswerMetadataWire, ModeWire, Provenance};
use super::source::SourceWire;
use crate::{ErrorReply, json};

/// Folds a log into the reply.
pub struct AnswerBuilder {
    provenance: Provenance,
    text: String,
    end: Option<(Outcome, Timestamp)>,
}

/// Response body for /chat endpoint.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChatResponse")]
pub struct ChatReply<'a> {
    /// Agent's synthesized answer
    answer: &'a str,
    /// Citations for the answer
    sources: Vec<SourceWire>,
    /// Mode used for this response
    mode: ModeWire,
    /// Response metadata
    metadata: AnswerMetadataWire<'a>,
}

impl AnswerBuilder {
    /// A builder before the first event.
    #[expect(clippy::new_without_default, reason = "a builder has no default state, only a first one")]
    pub fn new() -> Self {
        Self { provenance: Provenance::new(), text: String::new(), end: None }
    }

    /// Adds the next event of the log.
    pub fn push(&mut self, event: &Event) {
        self.provenance.push(event);
        match &event.step {
            Step::Text(text) => self.text.push_str(text),
            Step::Ended(ended) => self.end = Some((ended.outcome.clone(), event.at)),
            _ => {}
        }
    }

    /// The reply's body, once the log has ended.
    pub fn finish(&self) -> Result<Vec<u8>, ErrorReply> {
        match &self.end {
            Some((Outcome::Done(_), at)) => Ok(json::reply(&ChatReply {
                answer: &self.text,
                sources: self.provenance.sources(),
                mode: self.provenance.mode,
                metadata: self.provenance.metadata(*at),
            })),
            Some((Outcome::Cancelled, _)) => Err(cancelled()),
            Some((Outcome::Failed(failure), _)) => Err(failed(failure)),
            None => Err(ErrorReply::new(500, "internal_error", "the log has no terminal event")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::{Failure, FailureKind, FinishReason, SearchScope};
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{accepted, ended, log, log_of, text};

    fn finish(log: &[Event]) -> Result<Value, ErrorReply> {
        let mut answer = AnswerBuilder::new();
        log.iter().for_each(|event| answer.push(event));
        answer.finish().map(|reply| serde_json::from_slice(&reply).unwrap())
    }

    #[test]
    fn an_answer_is_its_whole_text() {
        let steps =
            vec![(1, text("a ")), (2, text("b")), (2_000, ended(Outcome::Done(FinishReason::Length)))];
        let mut expected = json!({
            "answer": "a b",
            "sources": [],
            "mode": "general",
            "metadata": {"query_time_ms": 2.0, "chunks_retrieved": 0, "model": "m"},
        });
        assert_eq!(finish(&log(steps.clone())).unwrap(), expected);
        expected["mode"] = json!("selected_text");
        let selected = log_of(accepted(SearchScope::Selection("a b".into())), steps);
        assert_eq!(finish(&selected).unwrap(), expected);
    }

    #[test]
    fn a_failure_or_cancel_has_its_status_and_code() {
        use FailureKind::*;
        for (kind, status, code) in [
            (Unavailable, 503, "agent_unavailable"),
            (Refused, 503, "agent_unavailable"),
            (SilentAtStart, 504, "agent_timeout"),
            (Stalled, 504, "agent_timeout"),
            (Died, 502, "agent_unavailable"),
            (EmptyAnswer, 502, "empty_answer"),
            (TooLong, 422, "prompt_too_long"),
            (Retrieval, 503, "retrieval_unavailable"),
            (Embedding, 503, "embedding_failed"),
            (Overloaded, 503, "overloaded"),
            (Interrupted, 503, "interrupted"),
            (Internal, 500, "internal_error"),
        ] {
            let failure = Failure { retry_after: Some(Duration::from_secs(7)), ..Failure::new(kind, "why") };
            let rejected =
                finish(&log(vec![(1, text("a")), (2, ended(Outcome::Failed(failure)))])).unwrap_err();
            assert_eq!((rejected.status, rejected.code, rejected.message.as_str()), (status, code, "why"));
            assert_eq!(rejected.retry_after, Some(Duration::from_secs(7)));
        }
        let cancelled = finish(&log(vec![(1, text("a")), (2, ended(Outcome::Cancelled))])).unwrap_err();
        assert_eq!((cancelled.status, cancelled.code), (409, "cancelled"));
    }
}
