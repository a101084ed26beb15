//! The delta: an event as this dialect sends it.

mod shape;

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use domain::{
    Ended, Event, Failure, FinishReason, ModelId, Outcome, Passage, Stage, StageName, Step, Timestamp,
};

use super::source::sources_of_answer;
use crate::failures::told;
use crate::{Encoder, sse};
pub use shape::Delta;
use shape::{Done, Error, FinishWire, Kind, Metadata, Role};

/// How deltas are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One JSON object a line.
    Ndjson,
    /// Server-sent events: the same object as `data`, its `seq` as `id`, its type as `event`.
    Sse,
}

impl Encoding {
    /// What a client's `Accept` header asks for. NDJSON, unless it names server-sent events and does not
    /// like NDJSON at least as much.
    pub fn from_accept(accept: Option<&str>) -> Self {
        let weight_of = |wanted: &str| {
            accept
                .unwrap_or_default()
                .split(',')
                .filter_map(|range| weight(range, wanted))
                .fold(0.0, f32::max)
        };
        let sse = weight_of("text/event-stream");
        if sse > weight_of("application/x-ndjson") { Self::Sse } else { Self::Ndjson }
    }

    /// The `Content-Type` of the stream.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Sse => sse::CONTENT_TYPE,
        }
    }
}

/// The weight (`q`) that a media range of an `Accept` header gives to exactly this type.
fn weight(range: &str, wanted: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(wanted) {
        return None;
    }
    Some(parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse().ok()).unwrap_or(1.0))
}

/// The `seq` of the terminal delta of an ended log.
pub fn terminal_seq<'a>(log: impl IntoIterator<Item = &'a Event>) -> u64 {
    log.into_iter().filter(|event| matches!(event.step, Step::Text(_))).count() as u64
}

/// Encodes a log as deltas: a token for each text, then one `done` or `error`.
pub struct DeltaEncoder {
    encoding: Encoding,
    /// Deltas up to this one were seen before.
    after: Option<u64>,
    seq: u64,
    prompt_id: String,
    idempotency_key: Option<String>,
    model: Option<ModelId>,
    cached_tokens: Option<u64>,
    retrieval_micros: u128,
    passages: Vec<Passage>,
    /// The numbers of those that the answer rests on.
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
        kind: Kind,
        role: Role,
        text: Option<&'a str>,
        metadata: Option<Metadata<'a>>,
    ) -> Delta<'a> {
        Delta { prompt_id: &self.prompt_id, kind, seq: self.seq, text, role, metadata }
    }

    fn terminal<'a>(&'a self, ended: &'a Ended, at: Timestamp) -> Delta<'a> {
        let done = |reason| {
            self.delta(Kind::Done, Role::Assistant, None, Some(Metadata::Done(self.done(reason, at))))
        };
        match &ended.outcome {
            Outcome::Done(FinishReason::Length) => done(FinishWire::Length),
            Outcome::Done(FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Filtered) => {
                done(FinishWire::Stop)
            }
            Outcome::Cancelled => done(FinishWire::Cancelled),
            Outcome::Failed(failure) => {
                self.delta(Kind::Error, Role::System, None, Some(Metadata::Error(self.error(failure))))
            }
        }
    }

    /// Writes a delta, unless the client has it.
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

    fn done(&self, finish_reason: FinishWire, ended_at: Timestamp) -> Done<'_> {
        let generation_time =
            self.first_token_at.map(|first| ended_at.since(first).max(Duration::from_millis(1)));
        let tokens_per_second = generation_time.map_or(0.0, |time| self.seq as f64 / time.as_secs_f64());
        Done {
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

    fn error<'a>(&'a self, failure: &'a Failure) -> Error<'a> {
        Error {
            code: told(failure.kind).delta,
            message: &failure.message,
            retryable: failure.kind.retryable(),
            retry_after_ms: failure.retry_after.map(millis),
            idempotency_key: self.idempotency_key.as_deref(),
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
            // Kept to the microsecond, so a replay adds up the same.
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
                self.write(&self.delta(Kind::Token, Role::Assistant, Some(text), None), out);
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use domain::{
        Accepted, CancelReason, Citation, EndCause, FailureKind, RetrievedPassages, SearchScope, StageName,
        Text, Usage,
    };

    use super::*;
    use crate::logs::{self, accepted, log_of, model, text};

    fn log(key: Option<&str>, steps: Vec<(i64, Step)>) -> Vec<Event> {
        let key = key.map(str::to_owned);
        log_of(Accepted { key, ..accepted(SearchScope::default()) }, steps)
    }

    fn ended(outcome: Outcome, cause: EndCause) -> Step {
        Step::Ended(Box::new(Ended { outcome, cause }))
    }

    fn encode(log: &[Event], encoding: Encoding, after: Option<u64>) -> String {
        logs::encode(log, DeltaEncoder::new(encoding, after))
    }

    fn whole_answer() -> Vec<Event> {
        log(
            Some("k"),
            vec![
                (250_000, Step::Started(model("second"))),
                (250_000, Step::Reasoning(Text::from("hm"))),
                (250_000, text("a \"b\"\n")),
                (1_250_000, text("ü")),
                (2_250_000, Step::Usage(Usage { cached: Some(7), ..Usage::default() })),
                (2_250_000, ended(Outcome::Done(FinishReason::Stop), EndCause::Model)),
            ],
        )
    }

    #[test]
    fn an_answer_is_tokens_and_one_done() {
        let id = "0190a0b0-0000-7000-8000-000000000001";
        let expected = [
            format!(r#"{{"promptId":"{id}","type":"token","seq":0,"text":"a \"b\"\n","role":"assistant"}}"#),
            format!(r#"{{"promptId":"{id}","type":"token","seq":1,"text":"ü","role":"assistant"}}"#),
            format!(
                r#"{{"promptId":"{id}","type":"done","seq":2,"role":"assistant","metadata":{{"tokenCount":2,"finishReason":"stop","provider":"second","model":"m","timeToFirstTokenMs":250,"tokensPerSecond":1.0,"retrievalMs":0,"cachedTokens":7,"sources":[],"idempotencyKey":"k"}}}}"#
            ),
        ];
        assert_eq!(encode(&whole_answer(), Encoding::Ndjson, None), expected.join("\n") + "\n");
    }

    #[test]
    fn an_answer_tells_the_passages_that_were_in_its_prompt_and_which_it_rests_on() {
        let passage = |path: Option<&str>, lines| Passage {
            chunk: "0190a0b0-0000-7000-8000-00000000000c".parse().unwrap(),
            document: "0190a0b0-0000-7000-8000-00000000000d".parse().unwrap(),
            title: "Guide".to_owned(),
            repo_url: path.map(|_| "https://r".to_owned()),
            file_path: path.map(str::to_owned),
            url: None,
            section: None,
            subsection: None,
            lines,
            chars: None,
            text: "The text.".to_owned(),
            before: String::new(),
            score: 0.5,
        };
        let in_prompt = vec![passage(Some("a.md"), Some((3, 4))), passage(None, None)];
        let took = Duration::from_micros(7_900);
        let line = encode(
            &log(
                None,
                vec![
                    (1, Step::Stage(Stage::Began(StageName::Retrieval))),
                    (9, Step::Stage(Stage::Ended { name: StageName::Retrieval, count: 40, took })),
                    (9, Step::Passages(Box::new(RetrievedPassages { found: 5, in_prompt }))),
                    (20, Step::Citations([Citation { number: 2, quote: None }].into())),
                    (30, ended(Outcome::Done(FinishReason::Stop), EndCause::Model)),
                ],
            ),
            Encoding::Ndjson,
            None,
        );
        let ids = r#""documentId":"0190a0b0-0000-7000-8000-00000000000d","chunkId":"0190a0b0-0000-7000-8000-00000000000c""#;
        let sources = format!(
            r#""retrievalMs":7,"sources":[{{"index":1,{ids},"title":"Guide","repoUrl":"https://r","filePath":"a.md","lineStart":3,"lineEnd":4,"excerpt":"The text.","score":0.5,"cited":false}},{{"index":2,{ids},"title":"Guide","excerpt":"The text.","score":0.5,"cited":true}}]"#
        );
        assert!(line.contains(&sources), "{line}");
    }

    #[test]
    fn server_sent_events_carry_the_same_objects() {
        let lines = encode(&whole_answer(), Encoding::Ndjson, None);
        let kinds = ["token", "token", "done"];
        let expected: String = (0..)
            .zip(lines.lines().zip(kinds))
            .map(|(seq, (line, kind))| format!("id: {seq}\nevent: {kind}\ndata: {line}\n\n"))
            .collect();
        assert_eq!(encode(&whole_answer(), Encoding::Sse, None), expected);
    }

    #[test]
    fn a_resumed_stream_is_the_first_stream_cut() {
        for encoding in [Encoding::Ndjson, Encoding::Sse] {
            let whole = encode(&whole_answer(), encoding, None);
            for after in 0..4 {
                let rest = encode(&whole_answer(), encoding, Some(after));
                assert!(whole.ends_with(&rest));
                let frames = rest.matches("promptId").count() as u64;
                assert_eq!(frames, 3_u64.saturating_sub(after + 1));
            }
        }
        assert_eq!(terminal_seq(&whole_answer()), 2);
    }

    #[test]
    fn a_cancel_is_a_done_that_says_so() {
        let cancelled = ended(Outcome::Cancelled, EndCause::Client(CancelReason::UserInitiated));
        let line = encode(&log(None, vec![(9, cancelled)]), Encoding::Ndjson, None);
        let expected = r#""metadata":{"tokenCount":0,"finishReason":"cancelled","provider":"first","model":"m","tokensPerSecond":0.0,"retrievalMs":0,"sources":[],"cancelled":true}}"#;
        assert!(line.trim_end().ends_with(expected), "{line}");
    }

    #[test]
    fn every_failure_has_its_code_and_says_whether_to_try_again() {
        for (kind, expected, retryable) in [
            (FailureKind::Unavailable, "provider_unavailable", true),
            (FailureKind::Refused, "provider_unavailable", false),
            (FailureKind::SilentAtStart, "provider_timeout", true),
            (FailureKind::Stalled, "provider_timeout", true),
            (FailureKind::Died, "provider_error", true),
            (FailureKind::EmptyAnswer, "empty_answer", true),
            (FailureKind::TooLong, "prompt_too_long", false),
            (FailureKind::Retrieval, "retrieval_unavailable", true),
            (FailureKind::Embedding, "retrieval_unavailable", true),
            (FailureKind::Overloaded, "overloaded", true),
            (FailureKind::Interrupted, "interrupted", true),
            (FailureKind::Internal, "internal_error", false),
        ] {
            let failure = Failure { retry_after: Some(Duration::from_secs(2)), ..Failure::new(kind, "why") };
            let failed = ended(Outcome::Failed(failure), EndCause::Model);
            let line = encode(&log(Some("k"), vec![(9, failed)]), Encoding::Ndjson, None);
            let metadata = format!(
                r#""role":"system","metadata":{{"code":"{expected}","message":"why","retryable":{retryable},"retryAfterMs":2000,"idempotencyKey":"k"}}}}"#
            );
            assert!(line.trim_end().ends_with(&metadata), "{line}");
        }
    }

    #[test]
    fn the_accept_header_chooses_the_encoding() {
        for (accept, expected) in [
            (None, Encoding::Ndjson),
            (Some("*/*"), Encoding::Ndjson),
            (Some("application/json, text/plain, */*"), Encoding::Ndjson),
            (Some("application/x-ndjson"), Encoding::Ndjson),
            (Some("text/event-stream"), Encoding::Sse),
            (Some("Text/Event-Stream, */*"), Encoding::Sse),
            (Some("text/event-stream;q=0.9, application/x-ndjson;q=0.1"), Encoding::Sse),
            (Some("text/event-stream; q=0.1, application/x-ndjson"), Encoding::Ndjson),
            (Some("text/event-stream;q=0"), Encoding::Ndjson),
        ] {
            assert_eq!(Encoding::from_accept(accept), expected, "{accept:?}");
        }
    }
}
