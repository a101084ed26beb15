//! Every event of a log, as server-sent events: what the pages read. The `id` is the event's position.

mod wire;

use bytes::BytesMut;
use domain::{CancelReason, EndCause, Ended, Event, FinishReason, Outcome, Stage, StageName, Step};

use crate::generation::{failure_code, sources};
use crate::{Encoder, sse};
pub use wire::EventWire;
use wire::{
    CauseWire, CitationWire, EndedWire, FinishWire, OutcomeWire, StageNameWire, StageStatusWire, StepWire,
};

/// The position of the terminal event of an ended log.
pub fn terminal_position<'a>(log: impl IntoIterator<Item = &'a Event>) -> Option<u64> {
    log.into_iter().last().map(|event| event.position)
}

/// Encodes every event of a log.
pub struct EventEncoder {
    /// Position of the last event that the client already has.
    after: Option<u64>,
}

impl EventEncoder {
    /// An encoder for a client that has the events up to `after`.
    pub fn new(after: Option<u64>) -> Self {
        Self { after }
    }
}

impl Encoder for EventEncoder {
    fn encode(&mut self, event: &Event, out: &mut BytesMut) {
        if self.after.is_none_or(|after| event.position > after) {
            let step = StepWire::from(&event.step);
            let name = step.name();
            let wire = EventWire { position: event.position, at: event.at.to_string(), step };
            sse::event(event.position, name, &wire, out);
        }
    }

    fn keep_alive(&self) -> Option<&'static [u8]> {
        Some(sse::KEEP_ALIVE)
    }
}

impl<'a> From<&'a Step> for StepWire<'a> {
    fn from(step: &'a Step) -> Self {
        match step {
            Step::Accepted(accepted) => Self::Accepted {
                prompt_id: accepted.prompt.to_string(),
                session_id: accepted.session.to_string(),
                answer_id: accepted.answer.to_string(),
                text: &accepted.question.text,
                idempotency_key: accepted.key.as_deref(),
                follows: accepted.follows.map(|prompt| prompt.to_string()),
                trace_id: accepted.trace.to_string(),
            },
            Step::Stage(Stage::Began(name)) => Self::Stage {
                name: stage(*name),
                status: StageStatusWire::Started,
                count: None,
                micros: None,
            },
            Step::Stage(Stage::Ended { name, count, took }) => Self::Stage {
                name: stage(*name),
                status: StageStatusWire::Finished,
                count: Some(*count),
                micros: Some(took.as_micros()),
            },
            Step::Rewritten(query) => Self::Rewritten { query },
            Step::Passages(passages) => {
                Self::Passages { found: passages.found, passages: sources(&passages.in_prompt) }
            }
            Step::Citations(citations) => Self::Citations {
                citations: citations
                    .iter()
                    .map(|citation| CitationWire { index: citation.number, quote: citation.quote.as_deref() })
                    .collect(),
            },
            Step::Started(model) => Self::Started { provider: &model.provider, model: &model.model },
            Step::Text(text) => Self::Text { text },
            Step::Reasoning(text) => Self::Reasoning { text },
            Step::ToolCall(call) => {
                Self::ToolCall { id: &call.id, name: &call.name, arguments: &call.arguments }
            }
            Step::Usage(usage) => {
                Self::Usage { input: usage.input, output: usage.output, cached: usage.cached }
            }
            Step::Ended(ended) => Self::Ended((&**ended).into()),
        }
    }
}

impl<'a> From<&'a Ended> for EndedWire<'a> {
    fn from(ended: &'a Ended) -> Self {
        let (mut finish_reason, mut failure) = (None, None);
        let outcome = match &ended.outcome {
            Outcome::Done(reason) => {
                finish_reason = Some(*reason);
                OutcomeWire::Done
            }
            Outcome::Cancelled => OutcomeWire::Cancelled,
            Outcome::Failed(why) => {
                failure = Some(why);
                OutcomeWire::Failed
            }
        };
        Self {
            outcome,
            cause: cause(ended.cause),
            finish_reason: finish_reason.map(|reason| match reason {
                FinishReason::Stop => FinishWire::Stop,
                FinishReason::Length => FinishWire::Length,
                FinishReason::ToolCalls => FinishWire::ToolCalls,
                FinishReason::Filtered => FinishWire::Filtered,
            }),
            code: failure.map(|failure| failure_code(failure.kind)),
            message: failure.map(|failure| failure.message.as_str()),
            retryable: failure.map(|failure| failure.kind.retryable()),
        }
    }
}

fn stage(name: StageName) -> StageNameWire {
    match name {
        StageName::Rewriting => StageNameWire::Rewriting,
        StageName::Retrieval => StageNameWire::Retrieval,
        StageName::Reranking => StageNameWire::Reranking,
    }
}

fn cause(cause: EndCause) -> CauseWire {
    match cause {
        EndCause::Model => CauseWire::Model,
        EndCause::Limit => CauseWire::Limit,
        EndCause::Client(CancelReason::UserInitiated) => CauseWire::UserInitiated,
        EndCause::Client(CancelReason::Timeout) => CauseWire::Timeout,
        EndCause::Client(CancelReason::Error) => CauseWire::Error,
        EndCause::Abandoned => CauseWire::Abandoned,
        EndCause::SessionEnded => CauseWire::SessionEnded,
        EndCause::Drain => CauseWire::Drain,
        EndCause::Journal => CauseWire::Journal,
        EndCause::Recovery => CauseWire::Recovery,
        EndCause::Bug => CauseWire::Bug,
    }
}
