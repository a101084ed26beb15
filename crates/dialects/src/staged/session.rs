//! The state of a running stream, for `GET /chat/stream/{session_id}`.

use domain::{Event, Outcome, Stage, StageName, Step, Text, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::json;

/// Folds the log of a running prompt into its state.
pub struct StreamingSession {
    session_id: String,
    status: StreamStatusWire,
    tokens: Vec<Text>,
    stage: Option<StageWire>,
    started_at: Timestamp,
    error: Option<String>,
}

/// State of the running stream of a session. Fields without a value are null.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StreamingSession", example = serde_json::json!({
    "session_id": "550e8400-e29b-41d4-a716-446655440000",
    "status": "active",
    "accumulated_tokens": ["Aripiprazole", " is", " an"],
    "current_stage": "generation",
    "start_time": 1730892645.123,
    "token_count": 3,
    "error_message": null
}))]
pub struct StreamingSessionReply<'a> {
    /// Unique session identifier (UUID)
    #[schemars(regex(pattern = "^[a-f0-9-]{36}$"))]
    session_id: &'a str,
    /// Current streaming status
    status: StreamStatusWire,
    /// Tokens received so far
    accumulated_tokens: Vec<&'a str>,
    /// Current processing stage
    current_stage: Option<StageWire>,
    /// Unix timestamp of stream start
    start_time: f64,
    /// Number of tokens emitted
    token_count: usize,
    /// Error description if status is "error"
    error_message: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum StreamStatusWire {
    Active,
    Cancelled,
    Completed,
    Error,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum StageWire {
    Classifying,
    Retrieval,
    Reranking,
    Generation,
}

impl StreamingSession {
    /// The state before the first event.
    #[expect(clippy::new_without_default, reason = "a fold has no default state, only a first one")]
    pub fn new() -> Self {
        Self {
            session_id: String::new(),
            status: StreamStatusWire::Active,
            tokens: Vec::new(),
            stage: None,
            started_at: Timestamp::from_micros(0),
            error: None,
        }
    }

    /// Adds the next event of the log.
    pub fn push(&mut self, event: &Event) {
        match &event.step {
            Step::Accepted(accepted) => {
                self.session_id = accepted.session.to_string();
                self.started_at = event.at;
            }
            Step::Stage(stage) => self.push_stage(stage),
            Step::Passages(_) | Step::Started(_) | Step::Reasoning(_) => {
                self.stage = Some(StageWire::Generation);
            }
            Step::Text(text) => {
                self.stage = Some(StageWire::Generation);
                self.tokens.push(text.clone());
            }
            Step::Ended(ended) => self.end(&ended.outcome),
            Step::Rewritten(_) | Step::ToolCall(_) | Step::Usage(_) | Step::Citations(_) => {}
        }
    }

    /// Between two stages the previous one is current, until it is known which one follows.
    fn push_stage(&mut self, stage: &Stage) {
        self.stage = Some(match stage {
            Stage::Began(StageName::Rewriting) | Stage::Ended { name: StageName::Rewriting, .. } => {
                StageWire::Classifying
            }
            Stage::Ended { name: StageName::Retrieval, count: 0, .. }
            | Stage::Ended { name: StageName::Reranking, .. } => StageWire::Generation,
            Stage::Began(StageName::Retrieval) | Stage::Ended { name: StageName::Retrieval, .. } => {
                StageWire::Retrieval
            }
            Stage::Began(StageName::Reranking) => StageWire::Reranking,
        });
    }

    fn end(&mut self, outcome: &Outcome) {
        self.stage = None;
        self.status = match outcome {
            Outcome::Done(_) => StreamStatusWire::Completed,
            Outcome::Cancelled => StreamStatusWire::Cancelled,
            Outcome::Failed(failure) => {
                self.error = Some(failure.message.clone());
                StreamStatusWire::Error
            }
        };
    }

    /// Whether the prompt still runs.
    pub fn is_active(&self) -> bool {
        self.status == StreamStatusWire::Active
    }

    /// The reply to `GET /chat/stream/{session_id}`.
    pub fn reply(&self) -> Vec<u8> {
        json::reply(&StreamingSessionReply {
            session_id: &self.session_id,
            status: self.status,
            accumulated_tokens: self.tokens.iter().map(|text| &**text).collect(),
            current_stage: self.stage,
            start_time: seconds(self.started_at),
            token_count: self.tokens.len(),
            error_message: self.error.as_deref(),
        })
    }
}

/// Health of the endpoint: whether it accepts new streams.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StreamHealth")]
pub struct HealthReply {
    status: HealthStatus,
    endpoint: &'static str,
    version: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum HealthStatus {
    Healthy,
    Unhealthy,
}

/// The reply to `GET /chat/stream/health`.
pub fn health(takes_prompts: bool) -> Vec<u8> {
    json::reply(&HealthReply {
        status: if takes_prompts { HealthStatus::Healthy } else { HealthStatus::Unhealthy },
        endpoint: "/chat/stream",
        version: env!("CARGO_PKG_VERSION"),
    })
}

#[expect(clippy::cast_precision_loss, reason = "a double holds the microseconds of the next centuries")]
fn seconds(time: Timestamp) -> f64 {
    time.micros() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use domain::{Failure, FailureKind, FinishReason};
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{SESSION, ended, log, model, stage_began, stage_ended, text};

    fn state(steps: Vec<Step>) -> Value {
        let mut session = StreamingSession::new();
        log((0..).zip(steps).collect()).iter().for_each(|event| session.push(event));
        serde_json::from_slice(&session.reply()).unwrap()
    }

    #[test]
    fn a_stream_starts_active_and_empty() {
        let expected = json!({
            "session_id": SESSION,
            "status": "active",
            "accumulated_tokens": [],
            "current_stage": null,
            "start_time": 1_770_000_000.0,
            "token_count": 0,
            "error_message": null,
        });
        assert_eq!(state(vec![]), expected);
    }

    #[test]
    fn status_transitions() {
        let failed = Outcome::Failed(Failure::new(FailureKind::Died, "it broke off"));
        for (outcome, status, message) in [
            (Outcome::Done(FinishReason::Stop), "completed", Value::Null),
            (Outcome::Cancelled, "cancelled", Value::Null),
            (failed, "error", json!("it broke off")),
        ] {
            assert_eq!(state(vec![text("a")])["status"], "active");
            let ended = state(vec![text("a"), ended(outcome)]);
            assert_eq!((&ended["status"], &ended["error_message"]), (&json!(status), &message));
            assert_eq!((&ended["current_stage"], &ended["token_count"]), (&Value::Null, &json!(1)));
        }
    }

    #[test]
    fn token_accumulation() {
        let tokens = ["Aripiprazole", " is", " an", " is"];
        for count in 0..=tokens.len() {
            let state = state(tokens[..count].iter().map(|token| text(token)).collect());
            assert_eq!(
                (&state["accumulated_tokens"], &state["token_count"]),
                (&json!(tokens[..count]), &json!(count))
            );
        }
    }

    #[test]
    fn stages_never_go_back() {
        let steps = [
            (stage_began(StageName::Rewriting), "classifying"),
            (stage_ended(StageName::Rewriting, 1), "classifying"),
            (stage_began(StageName::Retrieval), "retrieval"),
            (stage_ended(StageName::Retrieval, 5), "retrieval"),
            (stage_began(StageName::Reranking), "reranking"),
            (stage_ended(StageName::Reranking, 3), "generation"),
            (Step::Passages(Box::default()), "generation"),
            (Step::Started(model("local")), "generation"),
            (text("a"), "generation"),
        ];
        for count in 1..=steps.len() {
            let state = state(steps[..count].iter().map(|(step, _)| step.clone()).collect());
            assert_eq!(state["current_stage"], steps[count - 1].1, "{count}");
        }
        let when_nothing_found =
            vec![stage_began(StageName::Retrieval), stage_ended(StageName::Retrieval, 0)];
        assert_eq!(state(when_nothing_found)["current_stage"], "generation");
    }
}
