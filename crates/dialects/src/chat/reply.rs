//! The answer to `POST /chat`: a log as one JSON object, or why there is none.

use domain::{Event, Outcome, Step, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::basis::{Basis, Metadata, Mode};
use super::rejected::{cancelled, failed};
use super::source::Source;
use crate::{Rejected, json};

/// Folds a log into one answer.
pub struct Answer {
    basis: Basis,
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
    sources: Vec<Source>,
    /// Mode used for this response
    mode: Mode,
    /// Response metadata
    metadata: Metadata<'a>,
}

impl Answer {
    /// The answer before anything happened.
    #[expect(clippy::new_without_default, reason = "an answer of nothing is no answer")]
    pub fn new() -> Self {
        Self { basis: Basis::new(), text: String::new(), end: None }
    }

    /// Takes the next event of the log.
    pub fn take(&mut self, event: &Event) {
        self.basis.take(event);
        match &event.step {
            Step::Text(text) => self.text.push_str(text),
            Step::Ended(ended) => self.end = Some((ended.outcome.clone(), event.at)),
            _ => {}
        }
    }

    /// The body, once the log has ended.
    pub fn finish(&self) -> Result<Vec<u8>, Rejected> {
        match &self.end {
            Some((Outcome::Done(_), at)) => Ok(json::reply(&ChatReply {
                answer: &self.text,
                sources: self.basis.sources(),
                mode: self.basis.mode,
                metadata: self.basis.metadata(*at),
            })),
            Some((Outcome::Cancelled, _)) => Err(cancelled()),
            Some((Outcome::Failed(failure), _)) => Err(failed(failure)),
            None => Err(Rejected::new(500, "internal_error", "the answer has no end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::{Failure, FailureKind, FinishReason, SearchScope};
    use serde_json::{Value, json};

    use super::*;
    use crate::logs::{accepted, ended, log, log_of, text};

    fn finish(log: &[Event]) -> Result<Value, Rejected> {
        let mut answer = Answer::new();
        log.iter().for_each(|event| answer.take(event));
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
    fn without_an_answer_there_is_a_status_for_the_reason() {
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
