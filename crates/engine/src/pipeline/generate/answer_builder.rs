//! Builds an answer from model events: collects the steps for the log in batches, and enforces the answer's
//! limits. Pure.

use domain::{EndCause, Ended, Failure, FailureKind, FinishReason, ModelEvent, ModelId, Outcome, Step, Text};

use crate::Limits;

/// Bounds of a batch, which is otherwise what the provider has ready.
const BATCH_STEPS: usize = 64;
const BATCH_BYTES: usize = 16 * 1024;

/// Bytes that a step without text counts against the limit, so that the number of such steps is bounded too.
const STEP_BYTES: usize = 64;

/// An answer in progress.
pub(crate) struct AnswerBuilder {
    max_tokens: u64,
    max_bytes: usize,
    /// Steps that are not in the log yet.
    pub(crate) steps: Vec<Step>,
    batch_bytes: usize,
    /// The model that answers. It is logged together with the first content.
    pub(crate) model: Option<ModelId>,
    /// Text or reasoning was streamed, or a tool called.
    pub(crate) has_begun: bool,
    has_tool_call: bool,
    /// The text so far, without reasoning.
    pub(crate) text: String,
    /// Tokens of the text.
    pub(crate) tokens: u64,
    reasoning_tokens: u64,
    bytes: usize,
}

impl AnswerBuilder {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            max_tokens: u64::from(limits.max_tokens),
            max_bytes: limits.answer_bytes,
            steps: Vec::with_capacity(BATCH_STEPS),
            batch_bytes: 0,
            model: None,
            has_begun: false,
            has_tool_call: false,
            text: String::new(),
            tokens: 0,
            reasoning_tokens: 0,
            bytes: 0,
        }
    }

    pub(crate) fn batch_is_full(&self) -> bool {
        self.steps.len() >= BATCH_STEPS || self.batch_bytes >= BATCH_BYTES
    }

    /// Adds one event. Returns the terminal event if the answer ends with it, by itself or at a limit.
    pub(crate) fn add(&mut self, event: ModelEvent) -> Option<Ended> {
        match event {
            ModelEvent::Started(model) => self.model = Some(model),
            ModelEvent::Waiting => {}
            ModelEvent::Text(text) => {
                if !self.reserve(text.len()) {
                    return Some(self.end_at_limit());
                }
                self.add_text(text);
            }
            ModelEvent::Reasoning(text) => {
                if !self.reserve(text.len()) {
                    return Some(self.end_at_limit());
                }
                self.reasoning_tokens += 1;
                self.push(Step::Reasoning(text));
            }
            ModelEvent::ToolCall(call) => {
                if !self.reserve(STEP_BYTES + call.arguments.len()) {
                    return Some(self.end_at_limit());
                }
                self.has_tool_call = true;
                self.push(Step::ToolCall(Box::new(call)));
            }
            ModelEvent::Usage(usage) => {
                self.bytes += STEP_BYTES;
                if self.bytes > self.max_bytes {
                    return Some(self.end_at_limit());
                }
                self.steps.push(Step::Usage(usage));
            }
            ModelEvent::Finish(reason) => return Some(self.end(reason)),
        }
        None
    }

    /// Adds one token of text, whatever the limits.
    pub(crate) fn add_text(&mut self, text: Text) {
        self.tokens += 1;
        self.text.push_str(&text);
        self.push(Step::Text(text));
    }

    /// The steps of the batch, for the log to take. The next batch starts empty.
    pub(crate) fn take_batch(&mut self) -> &mut Vec<Step> {
        self.batch_bytes = 0;
        &mut self.steps
    }

    /// The terminal event of an answer that is cut at one of our limits: complete if it has any text or tool
    /// call.
    pub(crate) fn end_at_limit(&self) -> Ended {
        Ended { cause: EndCause::Limit, ..self.end(FinishReason::Length) }
    }

    /// Counts the bytes of a step. False if they exceed a limit. A provider stops at the token limit by
    /// itself and then reports its usage, so only content beyond the limit is cut, not what follows the last
    /// allowed token.
    fn reserve(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.batch_bytes += bytes;
        self.tokens + self.reasoning_tokens < self.max_tokens && self.bytes <= self.max_bytes
    }

    fn push(&mut self, content: Step) {
        if !self.has_begun {
            self.has_begun = true;
            self.steps.extend(self.model.clone().map(Step::Started));
        }
        self.steps.push(content);
    }

    fn end(&self, reason: FinishReason) -> Ended {
        let outcome = match reason {
            _ if self.tokens > 0 || self.has_tool_call => Outcome::Done(reason),
            FinishReason::Filtered => empty("the provider's content filter held the whole answer back"),
            FinishReason::Length => empty("the model reached its token limit before it said anything"),
            FinishReason::Stop | FinishReason::ToolCalls => empty("the model ended without saying anything"),
        };
        Ended { outcome, cause: EndCause::Model }
    }
}

fn empty(message: &str) -> Outcome {
    Outcome::Failed(Failure::new(FailureKind::EmptyAnswer, message))
}
