//! From model events to steps of the log, within the answer's bounds. Pure.

use domain::{EndCause, Ended, Failure, FailureKind, FinishReason, ModelEvent, ModelId, Outcome, Step, Text};

use crate::Limits;

/// A batch is what the provider has ready, up to these bounds.
const BATCH_STEPS: usize = 64;
const BATCH_BYTES: usize = 16 * 1024;

/// What counts for a step of few words, so that no number of them is unbounded.
const STEP_BYTES: usize = 64;

/// An answer while it grows.
pub(crate) struct Answer {
    max_tokens: u64,
    max_bytes: usize,
    /// Steps that the log does not have yet.
    pub(crate) steps: Vec<Step>,
    batch_bytes: usize,
    /// Who answers. The log gets it together with the first content.
    pub(crate) model: Option<ModelId>,
    /// Text or reasoning was streamed, or a tool called.
    pub(crate) has_begun: bool,
    has_tool_call: bool,
    /// The answer's words, for those who look at it when it is whole.
    pub(crate) text: String,
    /// Tokens of the answer's text.
    pub(crate) tokens: u64,
    reasoning_tokens: u64,
    bytes: usize,
}

impl Answer {
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

    /// Whether the steps make a whole batch.
    pub(crate) fn batch_is_full(&self) -> bool {
        self.steps.len() >= BATCH_STEPS || self.batch_bytes >= BATCH_BYTES
    }

    /// Takes one event; tells the end if that was the end.
    pub(crate) fn take(&mut self, event: ModelEvent) -> Option<Ended> {
        match event {
            ModelEvent::Started(model) => self.model = Some(model),
            ModelEvent::Waiting => {}
            ModelEvent::Text(text) => {
                if !self.has_room_for(text.len()) {
                    return Some(self.cut_short());
                }
                self.say(text);
            }
            ModelEvent::Reasoning(text) => {
                if !self.has_room_for(text.len()) {
                    return Some(self.cut_short());
                }
                self.reasoning_tokens += 1;
                self.push(Step::Reasoning(text));
            }
            ModelEvent::ToolCall(call) => {
                if !self.has_room_for(STEP_BYTES + call.arguments.len()) {
                    return Some(self.cut_short());
                }
                self.has_tool_call = true;
                self.push(Step::ToolCall(Box::new(call)));
            }
            ModelEvent::Usage(usage) => {
                self.bytes += STEP_BYTES;
                if self.bytes > self.max_bytes {
                    return Some(self.cut_short());
                }
                self.steps.push(Step::Usage(usage));
            }
            ModelEvent::Finish(reason) => return Some(self.finished(reason)),
        }
        None
    }

    /// Takes a token of the answer's text.
    pub(crate) fn say(&mut self, text: Text) {
        self.tokens += 1;
        self.text.push_str(&text);
        self.push(Step::Text(text));
    }

    /// The batch so far, to be emptied into the log.
    pub(crate) fn take_batch(&mut self) -> &mut Vec<Step> {
        self.batch_bytes = 0;
        &mut self.steps
    }

    /// The end of an answer that a bound of ours cuts: what was said counts, if anything was.
    pub(crate) fn cut_short(&self) -> Ended {
        Ended { cause: EndCause::Limit, ..self.finished(FinishReason::Length) }
    }

    /// A provider stops at the bound by itself and then tells its counts, so only what comes beyond the
    /// bound is cut.
    fn has_room_for(&mut self, bytes: usize) -> bool {
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

    fn finished(&self, reason: FinishReason) -> Ended {
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
