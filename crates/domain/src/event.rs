//! The event vocabulary. A log is a sequence of events; a dialect is a fold over it.

use std::sync::Arc;

use crate::{
    Citation, Failure, FailureKind, FinishReason, MessageId, Passage, PromptId, Question, SessionId, Stage,
    Text, Timestamp, ToolCall, TraceId, Usage,
};

/// One step of a prompt, with its position in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Position in the log: 0, 1, 2, … without gaps.
    pub position: u64,
    /// When it was appended; never before the previous event.
    pub at: Timestamp,
    /// What happened.
    pub step: Step,
}

/// Events that are appended together: one clock read, one journal write, one allocation.
pub type Batch = Arc<[Event]>;

/// The events of a prompt. `Accepted` is the first, `Ended` the last, each exactly once.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The prompt was admitted.
    Accepted(Box<Accepted>),
    /// A stage before generation began or ended.
    Stage(Stage),
    /// The query that retrieval uses instead of the question, when that is a follow-up. At most once, and
    /// before retrieval.
    Rewritten(Box<str>),
    /// The passages that retrieval found and the prompt contains. At most once, and before the answer.
    Passages(Box<RetrievedPassages>),
    /// A provider answers. Appended with its first text, reasoning or tool call.
    Started(ModelId),
    /// A token of the answer; never empty.
    Text(Text),
    /// A token of the model's reasoning; never empty.
    Reasoning(Text),
    /// A tool call by the model.
    ToolCall(Box<ToolCall>),
    /// Token counts as the provider reports them.
    Usage(Usage),
    /// The passages that the answer rests on. At most once, and after the answer.
    Citations(Box<[Citation]>),
    /// The terminal event.
    Ended(Box<Ended>),
}

/// An admitted prompt: what is asked, by which session, and the ids it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The prompt.
    pub prompt: PromptId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The id of the answer as a message of the conversation.
    pub answer: MessageId,
    /// What is asked.
    pub question: Question,
    /// The client's idempotency key, by which a retry finds this prompt.
    pub key: Option<String>,
    /// The previous prompt of the conversation.
    pub follows: Option<PromptId>,
    /// The model that is called first; a fallback may answer instead.
    pub first_choice: ModelId,
    /// The trace of the request that started it.
    pub trace: TraceId,
}

impl Accepted {
    /// This as the first event of a log.
    pub fn event(self: Box<Self>, at: Timestamp) -> Event {
        Event { position: 0, at, step: Step::Accepted(self) }
    }
}

/// The result of retrieval for a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetrievedPassages {
    /// Number of passages found; some of them may not fit into the prompt.
    pub found: u32,
    /// The passages in the prompt, best first, numbered from 1.
    pub in_prompt: Vec<Passage>,
}

/// A configured provider and one of its models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelId {
    /// The provider's configured name.
    pub provider: Arc<str>,
    /// The model's configured name.
    pub model: Arc<str>,
}

/// How and why a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// Who or what ended it.
    pub cause: EndCause,
}

impl Ended {
    /// The end of a prompt that the server could not complete.
    pub fn interrupted(cause: EndCause) -> Self {
        // Recovery writes this end after a crash. It has the same text as the end that a reader got from a
        // failing journal, so that both see the same log.
        let message = match cause {
            EndCause::Drain => "the server is stopping: ask again in a moment",
            _ => "the server could not keep the rest of the answer: ask again",
        };
        Self { outcome: Outcome::Failed(Failure::new(FailureKind::Interrupted, message)), cause }
    }

    /// Whether the same idempotency key may start a new prompt: after a retryable failure, and after the
    /// readers disconnected before the end. A success and a client's cancellation are replayed instead.
    pub fn may_be_retried(&self) -> bool {
        match &self.outcome {
            Outcome::Failed(failure) => failure.kind.retryable(),
            Outcome::Cancelled => self.cause == EndCause::Abandoned,
            Outcome::Done(_) => false,
        }
    }
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a complete answer.
    Done(FinishReason),
    /// Before the answer was complete; the log has the answer so far.
    Cancelled,
    /// Without a complete answer.
    Failed(Failure),
}

/// Who or what ended a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// The model finished or failed.
    Model,
    /// A bound of the server: tokens, bytes or total time.
    Limit,
    /// A client cancelled it.
    Client(crate::CancelReason),
    /// The last reader disconnected, and did not return within the resume window.
    Abandoned,
    /// Its session was ended.
    SessionEnded,
    /// The server shut down.
    Drain,
    /// The journal failed.
    Journal,
    /// The server crashed, and recovery found the prompt unfinished.
    Recovery,
    /// A bug in the server.
    Bug,
}
