//! The stream of `POST /chat/stream`: text chunks, then the sources, then the end.

use bytes::BytesMut;
use domain::{Ended, Event, Outcome, Step, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::{CANCELLED, failure_code};
use super::provenance::{AnswerMetadataWire, Provenance};
use super::source::SourceWire;
use crate::{Encoder, sse};

/// Encodes a log as server-sent events without id and name.
pub struct ChatEncoder {
    provenance: Provenance,
}

/// An event of the stream: chunks, then the sources, then `done`, or an error.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "ChatEvent")]
pub(crate) enum ChatEventWire<'a> {
    /// Streaming text chunk event.
    Chunk { content: &'a str },
    /// Streaming sources event (sent at end).
    Sources { sources: Vec<SourceWire> },
    /// Streaming completion event.
    Done { metadata: AnswerMetadataWire<'a> },
    /// Streaming error event.
    Error { error_code: &'a str, message: &'a str },
}

impl ChatEncoder {
    /// An encoder before the first event.
    #[expect(clippy::new_without_default, reason = "an encoder has no default state, only a first one")]
    pub fn new() -> Self {
        Self { provenance: Provenance::new() }
    }

    fn end(&self, ended: &Ended, at: Timestamp, out: &mut BytesMut) {
        let error = |error_code, message| ChatEventWire::Error { error_code, message };
        let last = match &ended.outcome {
            Outcome::Done(_) => {
                sse::data(&ChatEventWire::Sources { sources: self.provenance.sources() }, out);
                ChatEventWire::Done { metadata: self.provenance.metadata(at) }
            }
            Outcome::Cancelled => error(CANCELLED.0, CANCELLED.1),
            Outcome::Failed(failure) => error(failure_code(failure.kind).1, &failure.message),
        };
        sse::data(&last, out);
    }
}

impl Encoder for ChatEncoder {
    fn encode(&mut self, event: &Event, out: &mut BytesMut) {
        self.provenance.push(event);
        match &event.step {
            Step::Text(text) => sse::data(&ChatEventWire::Chunk { content: text }, out),
            Step::Ended(ended) => self.end(ended, event.at, out),
            _ => {}
        }
    }

    fn keep_alive(&self) -> Option<&'static [u8]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use domain::{Failure, FailureKind, FinishReason, RetrievedPassages};

    use super::*;
    use crate::fixture::{encode, ended, log, model, passage, text};

    #[test]
    fn an_answer_is_chunks_then_sources_then_done() {
        let found = RetrievedPassages { found: 3, in_prompt: vec![passage("Water runs.", None, (1, 1))] };
        let log = log(vec![
            (1, Step::Passages(Box::new(found))),
            (2, Step::Started(model("second"))),
            (2, text("a \"b\"\n")),
            (3, text("ü")),
            (1_500_250, ended(Outcome::Done(FinishReason::Stop))),
        ]);
        let expected = concat!(
            r#"data: {"type":"chunk","content":"a \"b\"\n"}"#,
            "\n\n",
            r#"data: {"type":"chunk","content":"ü"}"#,
            "\n\n",
            r#"data: {"type":"sources","sources":[{"source_url":"https://example.com/r/docs/springs.md","#,
            r#""page_title":"Springs","section_heading":"Introduction","chunk_text":"Water runs.","#,
            r#""relevance_score":0.5}]}"#,
            "\n\n",
            r#"data: {"type":"done","metadata":{"query_time_ms":1500.25,"chunks_retrieved":3,"model":"m"}}"#,
            "\n\n",
        );
        assert_eq!(encode(&log, ChatEncoder::new()), expected);
    }

    #[test]
    fn a_failure_or_a_cancel_is_an_error_without_sources() {
        let died = Failure::new(FailureKind::Died, "it broke off");
        for (outcome, code, message) in [
            (Outcome::Failed(died), "agent_unavailable", "it broke off"),
            (Outcome::Cancelled, CANCELLED.0, CANCELLED.1),
        ] {
            let stream = encode(&log(vec![(1, text("a")), (2, ended(outcome))]), ChatEncoder::new());
            let error = format!(r#"data: {{"type":"error","error_code":"{code}","message":"{message}"}}"#);
            assert_eq!(stream, format!("data: {}\n\n{error}\n\n", r#"{"type":"chunk","content":"a"}"#));
        }
        assert_eq!(ChatEncoder::new().keep_alive(), None);
    }
}
