//! Encodes a log as staged events: one `data` line each, with type, content and time.

use bytes::BytesMut;
use domain::{Event, Outcome, Stage, StageName, Step};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::errors::{failure_code, failure_codes};
use crate::{Encoder, sse};

/// Encodes a log as staged events.
#[derive(Default)]
pub struct StagedEncoder {
    /// Passages that retrieval found, with which reranking starts.
    candidates: usize,
}

/// Single event in SSE stream.
#[derive(Serialize, JsonSchema)]
#[schemars(
    example = json!({"type": "token", "content": "Aripiprazole", "timestamp": "2025-11-06T10:30:45.123Z"}),
    example = json!({
        "type": "retrieval_complete",
        "content": {"stage": "retrieval", "status": "complete", "doc_count": 5},
        "timestamp": "2025-11-06T10:30:42.456Z"
    }),
    example = json!({
        "type": "error",
        "content": {"message": "Failed to retrieve documents", "code": "RETRIEVAL_ERROR"},
        "timestamp": "2025-11-06T10:30:40.789Z"
    }),
)]
pub struct StreamEvent<'a> {
    #[serde(rename = "type")]
    kind: EventKind,
    /// The text of a token, the state of a stage, the message and code of an error; else an empty object.
    content: EventContent<'a>,
    /// When the event happened.
    #[schemars(extend("format" = "date-time"))]
    timestamp: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum EventKind {
    RetrievalStart,
    RetrievalComplete,
    RerankingStart,
    RerankingComplete,
    Token,
    Done,
    Error,
    Cancelled,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum EventContent<'a> {
    Token(&'a str),
    Error {
        message: &'a str,
        #[schemars(schema_with = "failure_codes")]
        code: &'static str,
    },
    Stage(StageContent),
    #[schemars(extend("maxProperties" = 0))]
    Nothing {},
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct StageContent {
    stage: StageWire,
    status: StageStatusWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum StageWire {
    Retrieval,
    Reranking,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum StageStatusWire {
    Started,
    Complete,
}

impl StagedEncoder {
    fn stage(&mut self, stage: &Stage) -> Option<(EventKind, EventContent<'static>)> {
        let content =
            |stage, status| StageContent { stage, status, doc_count: None, candidates: None, selected: None };
        let (kind, content) = match stage {
            Stage::Began(StageName::Retrieval) => {
                (EventKind::RetrievalStart, content(StageWire::Retrieval, StageStatusWire::Started))
            }
            Stage::Ended { name: StageName::Retrieval, count, .. } => {
                self.candidates = *count;
                let content = content(StageWire::Retrieval, StageStatusWire::Complete);
                (EventKind::RetrievalComplete, StageContent { doc_count: Some(*count), ..content })
            }
            Stage::Began(StageName::Reranking) => {
                let content = content(StageWire::Reranking, StageStatusWire::Started);
                (EventKind::RerankingStart, StageContent { candidates: Some(self.candidates), ..content })
            }
            Stage::Ended { name: StageName::Reranking, count, .. } => {
                let content = content(StageWire::Reranking, StageStatusWire::Complete);
                (EventKind::RerankingComplete, StageContent { selected: Some(*count), ..content })
            }
            // The dialect has no event for rewriting; `GET /chat/stream/{session_id}` shows it as `classifying`.
            Stage::Began(StageName::Rewriting) | Stage::Ended { name: StageName::Rewriting, .. } => {
                return None;
            }
        };
        Some((kind, EventContent::Stage(content)))
    }
}

impl Encoder for StagedEncoder {
    fn encode(&mut self, event: &Event, out: &mut BytesMut) {
        let encoded = match &event.step {
            Step::Stage(stage) => self.stage(stage),
            Step::Text(text) => Some((EventKind::Token, EventContent::Token(text))),
            Step::Ended(ended) => Some(end(&ended.outcome)),
            _ => None,
        };
        if let Some((kind, content)) = encoded {
            sse::data(&StreamEvent { kind, content, timestamp: event.at.to_string() }, out);
        }
    }

    fn keep_alive(&self) -> Option<&'static [u8]> {
        None
    }
}

fn end(outcome: &Outcome) -> (EventKind, EventContent<'_>) {
    match outcome {
        Outcome::Done(_) => (EventKind::Done, EventContent::Nothing {}),
        Outcome::Cancelled => (EventKind::Cancelled, EventContent::Nothing {}),
        Outcome::Failed(failure) => (
            EventKind::Error,
            EventContent::Error { message: &failure.message, code: failure_code(failure.kind) },
        ),
    }
}

#[cfg(test)]
mod tests {
    use domain::{Event, Failure, FailureKind, FinishReason};

    use super::*;
    use crate::fixture::{encode, ended, log, stage_began, stage_ended, text};

    fn events(steps: Vec<(i64, Step)>) -> Vec<String> {
        let stream = encode(&log(steps), StagedEncoder::default());
        let blocks =
            stream.split_terminator("\n\n").map(|block| block.strip_prefix("data: ").unwrap().to_owned());
        blocks.inspect(|block| assert!(!block.contains('\n'), "{block}")).collect()
    }

    /// The stages of a search that finds 5 passages and keeps 3, at the times of the format's first example.
    fn stages() -> Vec<(i64, Step)> {
        vec![
            (0, stage_began(StageName::Retrieval)),
            (1_500_000, stage_ended(StageName::Retrieval, 5)),
            (1_501_000, stage_began(StageName::Reranking)),
            (2_000_000, stage_ended(StageName::Reranking, 3)),
        ]
    }

    #[test]
    fn event_order_byte_for_byte() {
        let mut steps = stages();
        steps.extend([
            (2_100_000, text("Aripiprazole")),
            (2_150_000, text(" is")),
            (2_200_000, text(" a\n\"b\"\r")),
            (5_500_000, ended(Outcome::Done(FinishReason::Stop))),
        ]);
        let expected = [
            r#"{"type":"retrieval_start","content":{"stage":"retrieval","status":"started"},"timestamp":"2026-02-02T02:40:00.000Z"}"#,
            r#"{"type":"retrieval_complete","content":{"stage":"retrieval","status":"complete","doc_count":5},"timestamp":"2026-02-02T02:40:01.500Z"}"#,
            r#"{"type":"reranking_start","content":{"stage":"reranking","status":"started","candidates":5},"timestamp":"2026-02-02T02:40:01.501Z"}"#,
            r#"{"type":"reranking_complete","content":{"stage":"reranking","status":"complete","selected":3},"timestamp":"2026-02-02T02:40:02.000Z"}"#,
            r#"{"type":"token","content":"Aripiprazole","timestamp":"2026-02-02T02:40:02.100Z"}"#,
            r#"{"type":"token","content":" is","timestamp":"2026-02-02T02:40:02.150Z"}"#,
            r#"{"type":"token","content":" a\n\"b\"\r","timestamp":"2026-02-02T02:40:02.200Z"}"#,
            r#"{"type":"done","content":{},"timestamp":"2026-02-02T02:40:05.500Z"}"#,
        ];
        assert_eq!(events(steps), expected);
    }

    #[test]
    fn a_cancel_or_failure_is_the_last_event() {
        let cancelled = r#"{"type":"cancelled","content":{},"timestamp":"2026-02-02T02:40:00.500Z"}"#;
        assert_eq!(events(vec![(500_000, ended(Outcome::Cancelled))]), [cancelled]);
        let failed = Outcome::Failed(Failure::new(FailureKind::Retrieval, "Failed to retrieve documents"));
        let error = r#"{"type":"error","content":{"message":"Failed to retrieve documents","code":"RETRIEVAL_ERROR"},"timestamp":"2026-02-02T02:40:00.500Z"}"#;
        assert_eq!(events(vec![(500_000, ended(failed))]), [error]);
    }

    #[test]
    fn a_failure_has_the_code_of_its_kind() {
        use FailureKind::*;
        for (kind, code) in [
            (Unavailable, "PROVIDER_UNAVAILABLE"),
            (Refused, "PROVIDER_UNAVAILABLE"),
            (SilentAtStart, "PROVIDER_TIMEOUT"),
            (Stalled, "PROVIDER_TIMEOUT"),
            (Died, "PROVIDER_ERROR"),
            (EmptyAnswer, "EMPTY_ANSWER"),
            (TooLong, "PROMPT_TOO_LONG"),
            (Retrieval, "RETRIEVAL_ERROR"),
            (Embedding, "RETRIEVAL_ERROR"),
            (Overloaded, "OVERLOADED"),
            (Interrupted, "INTERRUPTED"),
            (Internal, "INTERNAL_ERROR"),
        ] {
            let encoded = events(vec![(0, ended(Outcome::Failed(Failure::new(kind, "why"))))]);
            assert!(
                encoded[0].contains(&format!(r#""content":{{"message":"why","code":"{code}"}}"#)),
                "{encoded:?}"
            );
        }
    }

    #[test]
    fn timestamp_format() {
        let log: Vec<Event> = log(vec![(1_234_567, text("a"))]);
        let stream = encode(&log, StagedEncoder::default());
        assert!(stream.contains(r#""timestamp":"2026-02-02T02:40:01.234Z""#), "{stream}");
    }

    #[test]
    fn rewriting_has_no_event() {
        let rewriting = [stage_began(StageName::Rewriting), stage_ended(StageName::Rewriting, 1)];
        assert!(events(rewriting.map(|step| (0, step)).to_vec()).is_empty());
        assert!(events(vec![(0, Step::Rewritten("q".into()))]).is_empty());
        assert_eq!(StagedEncoder::default().keep_alive(), None);
    }
}
