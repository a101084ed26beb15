//! Logs and passages for the tests of encoders.

use std::time::Duration;

use bytes::BytesMut;
use domain::{
    Accepted, ChunkId, DocumentId, EndCause, Ended, Event, MessageId, ModelId, Outcome, Passage, Question,
    SearchScope, SessionId, Stage, StageName, Step, Text, Timestamp, TraceId,
};

use crate::Encoder;

/// The ids of every log's prompt and session.
pub(crate) const PROMPT: &str = "0190a0b0-0000-7000-8000-000000000001";
pub(crate) const SESSION: &str = "550e8400-e29b-41d4-a716-446655440000";

/// Microseconds after 2026-02-02T02:40:00Z, when every log begins.
pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(1_770_000_000_000_000 + micros)
}

pub(crate) fn model(provider: &str) -> ModelId {
    ModelId { provider: provider.into(), model: "m".into() }
}

/// A log with these steps, each with its time in microseconds.
pub(crate) fn log(steps: Vec<(i64, Step)>) -> Vec<Event> {
    log_of(accepted(SearchScope::default()), steps)
}

/// The same with another first event.
pub(crate) fn log_of(accepted: Accepted, steps: Vec<(i64, Step)>) -> Vec<Event> {
    let first = Box::new(accepted).event(at(0));
    let rest = (1..).zip(steps).map(|(position, (micros, step))| Event { position, at: at(micros), step });
    std::iter::once(first).chain(rest).collect()
}

pub(crate) fn accepted(scope: SearchScope) -> Accepted {
    Accepted {
        prompt: PROMPT.parse().unwrap(),
        session: SESSION.parse::<SessionId>().unwrap(),
        answer: MessageId::new(at(0)),
        question: Question { text: "q".into(), top_k: 5, scope, threshold: None, provider: None },
        key: None,
        follows: None,
        first_choice: model("first"),
        trace: TraceId::random(),
    }
}

pub(crate) fn text(text: &str) -> Step {
    Step::Text(Text::from(text))
}

pub(crate) fn ended(outcome: Outcome) -> Step {
    Step::Ended(Box::new(Ended { outcome, cause: EndCause::Model }))
}

pub(crate) fn stage_began(name: StageName) -> Step {
    Step::Stage(Stage::Began(name))
}

pub(crate) fn stage_ended(name: StageName, count: usize) -> Step {
    Step::Stage(Stage::Ended { name, count, took: Duration::from_millis(2) })
}

/// A passage of a document, or with `chars` one of a selection.
pub(crate) fn passage(text: &str, chars: Option<(u32, u32)>, lines: (u32, u32)) -> Passage {
    let selected = |name: &str| chars.map(|_| name.to_owned());
    Passage {
        chunk: ChunkId::new(at(0)),
        document: DocumentId::new(at(0)),
        title: selected("User Selection").unwrap_or_else(|| "Springs".to_owned()),
        repo_url: Some("https://example.com/r".to_owned()),
        file_path: Some("docs/springs.md".to_owned()),
        url: selected("selected_text"),
        section: selected("Selected Text"),
        subsection: None,
        lines: Some(lines),
        chars,
        text: text.to_owned(),
        score: 0.5,
    }
}

/// The whole output of an encoder.
pub(crate) fn encode(log: &[Event], mut encoder: impl Encoder) -> String {
    let mut out = BytesMut::new();
    log.iter().for_each(|event| encoder.encode(event, &mut out));
    String::from_utf8(out.to_vec()).unwrap()
}
