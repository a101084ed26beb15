//! Encodes a log as deltas: a `token` for each text, then one `done` or `error`.

mod wire;

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use domain::{Ended, Event, FinishReason, ModelId, Outcome, Passage, Stage, StageName, Step, Timestamp};

use super::errors::{FailureWire, millis};
use super::framing::Encoding;
use super::source::sources_of_answer;
use crate::{Encoder, sse};
pub use wire::Delta;
use wire::{DeltaKind, DeltaMetadata, DeltaRole, DoneWire, FinishWire};

/// The `seq` of the terminal delta of an ended log.
pub fn terminal_seq<'a>(log: impl IntoIterator<Item = &'a Event>) -> u64 {
    log.into_iter().filter(|event| matches!(event.step, Step::Text(_))).count() as u64
}

/// Encodes a log as deltas.
pub struct DeltaEncoder {
    encoding: Encoding,
    /// The last delta that the client already has.
    after: Option<u64>,
    seq: u64,
    prompt_id: String,
    idempotency_key: Option<String>,
    model: Option<ModelId>,
    cached_tokens: Option<u64>,
    retrieval_micros: u128,
    passages: Vec<Passage>,
    /// The numbers of the cited passages.
    cited: Vec<u32>,
    accepted_at: Timestamp,
    first_token_at: Option<Timestamp>,
}

impl DeltaEncoder {
    /// An encoder for a client that has the deltas up to `after`.
    pub fn new(encoding: Encoding, after: Option<u64>) -> Self {
        Self {
            encoding,
            after,
            seq: 0,
            prompt_id: String::new(),
            idempotency_key: None,
            model: None,
            cached_tokens: None,
            retrieval_micros: 0,
            passages: Vec::new(),
            cited: Vec::new(),
            accepted_at: Timestamp::MIN,
            first_token_at: None,
        }
    }

    fn delta<'a>(
        &'a self,
        kind: DeltaKind,
        role: DeltaRole,
        text: Option<&'a str>,
        metadata: Option<DeltaMetadata<'a>>,
    ) -> Delta<'a> {
        Delta { prompt_id: &self.prompt_id, kind, seq: self.seq, text, role, metadata }
    }

    fn terminal<'a>(&'a self, ended: &'a Ended, at: Timestamp) -> Delta<'a> {
        let done = |reason| {
            let metadata = DeltaMetadata::Done(self.done(reason, at));
            self.delta(DeltaKind::Done, DeltaRole::Assistant, None, Some(metadata))
        };
        match &ended.outcome {
            Outcome::Done(FinishReason::Length) => done(FinishWire::Length),
            Outcome::Done(FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Filtered) => {
                done(FinishWire::Stop)
            }
            Outcome::Cancelled => done(FinishWire::Cancelled),
            Outcome::Failed(failure) => {
                let error = FailureWire::new(failure, self.idempotency_key.as_deref());
                self.delta(DeltaKind::Error, DeltaRole::System, None, Some(DeltaMetadata::Error(error)))
            }
        }
    }

    /// Writes a delta, unless the client already has it.
    fn write(&self, delta: &Delta<'_>, out: &mut BytesMut) {
        if self.after.is_some_and(|after| delta.seq <= after) {
            return;
        }
        match self.encoding {
            Encoding::Ndjson => {
                serde_json::to_writer(out.writer(), delta).expect("a delta is JSON, and memory takes it");
                out.put_u8(b'\n');
            }
            Encoding::Sse => sse::event(delta.seq, delta.kind.name(), delta, out),
        }
    }

    fn done(&self, finish_reason: FinishWire, ended_at: Timestamp) -> DoneWire<'_> {
        let generation_time =
            self.first_token_at.map(|first| ended_at.since(first).max(Duration::from_millis(1)));
        let tokens_per_second = generation_time.map_or(0.0, |time| self.seq as f64 / time.as_secs_f64());
        DoneWire {
            token_count: self.seq,
            finish_reason,
            provider: self.model.as_ref().map(|model| &*model.provider),
            model: self.model.as_ref().map(|model| &*model.model),
            time_to_first_token_ms: self.first_token_at.map(|first| millis(first.since(self.accepted_at))),
            tokens_per_second: (tokens_per_second * 10.0).round() / 10.0,
            retrieval_ms: self.retrieval_micros / 1_000,
            cached_tokens: self.cached_tokens,
            sources: sources_of_answer(&self.passages, &self.cited),
            idempotency_key: self.idempotency_key.as_deref(),
            cancelled: finish_reason == FinishWire::Cancelled,
        }
    }
}

impl Encoder for DeltaEncoder {
    fn encode(&mut self, event: &Event, out: &mut BytesMut) {
        match &event.step {
            Step::Accepted(accepted) => {
                self.prompt_id = accepted.prompt.to_string();
                self.idempotency_key.clone_from(&accepted.key);
                self.model = Some(accepted.first_choice.clone());
                self.accepted_at = event.at;
            }
            // In microseconds, so that a replay gives the same sum.
            Step::Stage(Stage::Ended { name: StageName::Retrieval | StageName::Reranking, took, .. }) => {
                self.retrieval_micros += took.as_micros();
            }
            Step::Passages(passages) => self.passages.clone_from(&passages.in_prompt),
            Step::Citations(citations) => {
                self.cited = citations.iter().map(|citation| citation.number).collect();
            }
            Step::Started(model) => self.model = Some(model.clone()),
            Step::Text(text) => {
                self.first_token_at.get_or_insert(event.at);
                self.write(&self.delta(DeltaKind::Token, DeltaRole::Assistant, Some(text), None), out);
                self.seq += 1;
            }
            Step::Usage(usage) => self.cached_tokens = usage.cached,
            Step::Ended(ended) => self.write(&self.terminal(ended, event.at), out),
            Step::Stage(_) | Step::Rewritten(_) | Step::Reasoning(_) | Step::ToolCall(_) => {}
        }
    }

    fn keep_alive(&self) -> Option<&'static [u8]> {
        match self.encoding {
            Encoding::Ndjson => None,
            Encoding::Sse => Some(sse::KEEP_ALIVE),
        }
    }
}

#[cfg(test)]
mod tests;
