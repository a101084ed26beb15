//! The one event vocabulary. A log is a sequence of events; a dialect is a fold over it.

use std::sync::Arc;

use crate::{
    Citation, Failure, FailureKind, FinishReason, MessageId, Passage, PromptId, Question, SessionId, Stage,
    Text, Timestamp, ToolCall, TraceId, Usage,
};

/// One step of a prompt, at its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// 0, 1, 2, … without a gap.
    pub position: u64,
    /// When it was appended; never earlier than the event before it.
    pub at: Timestamp,
    /// What happened.
    pub step: Step,
}

/// Events appended together: one clock read, one journal write, one allocation.
pub type Batch = Arc<[Event]>;

/// What can happen in a prompt. `Accepted` is the first, `Ended` the last, each exactly once.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The prompt was admitted.
    Accepted(Box<Accepted>),
    /// A stage on the way to the answer began or ended.
    Stage(Stage),
    /// What is looked for instead of the question, which goes on from an earlier one. At most once, and before
    /// anything is looked for.
    Rewritten(Box<str>),
    /// What was found, exactly as the model is given it. At most once, and before anything of the answer.
    Passages(Box<RetrievedPassages>),
    /// A provider answers. Comes with its first text, reasoning or tool call.
    Started(ModelId),
    /// A token of the answer; never empty.
    Text(Text),
    /// A token of the model's reasoning; never empty.
    Reasoning(Text),
    /// The model wants a tool called.
    ToolCall(Box<ToolCall>),
    /// The provider's own count.
    Usage(Usage),
    /// PromptFilter passages the answer rests on. At most once, and after the answer.
    Citations(Box<[Citation]>),
    /// The end.
    Ended(Box<Ended>),
}

/// What was admitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The prompt.
    pub prompt: PromptId,
    /// Its session.
    pub session: SessionId,
    /// The answer's id as a message of the conversation.
    pub answer: MessageId,
    /// What is asked.
    pub question: Question,
    /// The client's key, under which a retry finds this prompt.
    pub key: Option<String>,
    /// The prompt before it in the conversation.
    pub follows: Option<PromptId>,
    /// The model that is asked first.
    pub first_choice: ModelId,
    /// The trace of the request that started it.
    pub trace: TraceId,
}

impl Accepted {
    /// The first event of the log.
    pub fn event(self: Box<Self>, at: Timestamp) -> Event {
        Event { position: 0, at, step: Step::Accepted(self) }
    }
}

/// What was found for a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetrievedPassages {
    /// How many were found; not all of them may have fitted into the prompt.
    pub found: u32,
    /// Those in the prompt, best first. The first one has the number 1 there.
    pub in_prompt: Vec<Passage>,
}

/// Who answers: a configured provider and its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelId {
    /// The provider's configured name.
    pub provider: Arc<str>,
    /// The model's configured name.
    pub model: Arc<str>,
}

/// How and why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// Who or what ended it.
    pub cause: EndCause,
}

impl Ended {
    /// The end of a prompt that its server could not bring to an end.
    pub fn interrupted(cause: EndCause) -> Self {
        // A reader who was told of a lost journal may find what recovery wrote, and it says the same.
        let message = match cause {
            EndCause::Drain => "the server is stopping: ask again in a moment",
            _ => "the server could not keep the rest of the answer: ask again",
        };
        Self { outcome: Outcome::Failed(Failure::new(FailureKind::Interrupted, message)), cause }
    }

    /// Whether the same key may start a new prompt: after a failure that asking again may mend, or when
    /// the readers left before the end. Success and a client's cancel are replayed.
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
    /// With an answer.
    Done(FinishReason),
    /// Before its time; the answer so far is kept.
    Cancelled,
    /// Without a whole answer.
    Failed(Failure),
}

/// Who or what ended a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// The model finished, or failed.
    Model,
    /// A bound of ours: tokens, bytes or total time.
    Limit,
    /// A client asked for it.
    Client(crate::CancelReason),
    /// Nobody read it any more.
    Abandoned,
    /// Its session was ended.
    SessionEnded,
    /// The server stopped.
    Drain,
    /// The journal failed.
    Journal,
    /// The server died, and found the prompt unfinished when it came back.
    Recovery,
    /// A bug of ours.
    Bug,
}
