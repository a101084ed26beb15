//! The events that a decoder has found. The texts of one read are collected in one buffer and share it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use domain::{Failure, FailureKind, FinishReason, ModelEvent, Text, ToolCall, Usage};

use crate::characters::Characters;
use crate::lines::{MAX_FRAME, TooLarge};
use crate::problem::Problem;

/// More tool calls than this in one answer are a model gone astray.
pub(crate) const MAX_TOOL_CALLS: usize = 128;

/// Turns the bytes of an answer into events. Pure: the events follow from the bytes alone, however they are
/// cut into reads.
pub(crate) trait Decoder: Default + Send + Unpin + 'static {
    /// Decodes what was read.
    fn feed(&mut self, bytes: &[u8]);

    /// Decodes what is left when nothing more comes, for that reason.
    fn finish(&mut self, reason: &str);

    /// What was found.
    fn events(&mut self) -> &mut Events;
}

/// Events in the order they were found. After the end, a `Finish` or a failure, nothing is taken any more.
#[derive(Default)]
pub(crate) struct Events {
    text: Characters,
    reasoning: Characters,
    buffer: String,
    drafts: Vec<Draft>,
    ready: VecDeque<Result<ModelEvent, Failure>>,
    tool_calls: usize,
    has_content: bool,
    has_ended: bool,
}

/// An event of the read that is being decoded; its text is still a part of the growing buffer.
enum Draft {
    Text(Range<usize>),
    Reasoning(Range<usize>),
    Whole(Result<ModelEvent, Failure>),
}

impl Events {
    /// Text as a frame has it; an event only if it completes a character.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        let start = self.buffer.len();
        self.text.push(bytes, &mut self.buffer);
        self.draft(Draft::Text, start);
    }

    /// Reasoning as a frame has it; an event only if it completes a character.
    pub(crate) fn reasoning(&mut self, bytes: &[u8]) {
        let start = self.buffer.len();
        self.reasoning.push(bytes, &mut self.buffer);
        self.draft(Draft::Reasoning, start);
    }

    /// A whole tool call.
    pub(crate) fn tool_call(&mut self, call: ToolCall) {
        self.tool_calls += 1;
        if self.tool_calls > MAX_TOOL_CALLS {
            self.fail(format!("wants more than {MAX_TOOL_CALLS} tools called"));
            return;
        }
        self.has_content = true;
        self.take(Draft::Whole(Ok(ModelEvent::ToolCall(call))));
    }

    /// The provider's own count.
    pub(crate) fn usage(&mut self, usage: Usage) {
        self.take(Draft::Whole(Ok(ModelEvent::Usage(usage))));
    }

    /// The answer ends well. Some servers say `stop` although they want tools called.
    pub(crate) fn finish(&mut self, reason: FinishReason) {
        let wants_tools = reason == FinishReason::Stop && self.tool_calls > 0;
        let reason = if wants_tools { FinishReason::ToolCalls } else { reason };
        self.take(Draft::Whole(Ok(ModelEvent::Finish(reason))));
        self.has_ended = true;
    }

    /// The answer ends badly. As long as nothing of it was told, that is no worse than a request that
    /// failed, and another provider may be asked.
    pub(crate) fn fail(&mut self, message: impl Into<String>) {
        let kind = if self.has_content { FailureKind::Died } else { FailureKind::Unavailable };
        self.end(Failure::new(kind, message));
    }

    /// The server itself told of an error.
    pub(crate) fn fail_with(&mut self, problem: &Problem) {
        let message = format!("reported an error: {}", problem.message);
        if problem.is_too_long() && !self.has_content {
            self.end(Failure::new(FailureKind::TooLong, message));
        } else {
            self.fail(message);
        }
    }

    /// Nothing more comes, although the answer has no end.
    pub(crate) fn break_off(&mut self, reason: &str) {
        self.fail(if self.has_content {
            format!("the answer broke off: {reason}")
        } else {
            format!("no answer came: {reason}; check base_url and the provider's kind")
        });
    }

    /// The server sent a frame that no decoder could hold.
    pub(crate) fn fail_at_size(&mut self, _: TooLarge) {
        self.fail(format!("sent a frame of more than {MAX_FRAME} bytes"));
    }

    /// The server sent a frame that cannot be read.
    pub(crate) fn fail_at_frame(&mut self, error: &serde_json::Error) {
        self.fail(format!(
            "sent a frame that is not the JSON we expect ({error}): check base_url and the provider's kind"
        ));
    }

    /// Readies the events of one read.
    pub(crate) fn freeze(&mut self) {
        if self.drafts.is_empty() {
            return;
        }
        let buffer: Arc<str> = Arc::from(self.buffer.as_str());
        self.ready.extend(self.drafts.drain(..).map(|draft| match draft {
            Draft::Text(range) => Ok(ModelEvent::Text(Text::slice(&buffer, range))),
            Draft::Reasoning(range) => Ok(ModelEvent::Reasoning(Text::slice(&buffer, range))),
            Draft::Whole(event) => event,
        }));
        self.buffer.clear();
    }

    /// The next event that is ready.
    pub(crate) fn next(&mut self) -> Option<Result<ModelEvent, Failure>> {
        self.ready.pop_front()
    }

    /// Whether the next event is a good end.
    pub(crate) fn is_at_finish(&self) -> bool {
        matches!(self.ready.front(), Some(Ok(ModelEvent::Finish(_))))
    }

    /// Whether no more events can come, beyond those that are ready.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn draft(&mut self, draft: fn(Range<usize>) -> Draft, start: usize) {
        let end = self.buffer.len();
        if end > start {
            self.has_content = true;
            self.take(draft(start..end));
        }
    }

    fn end(&mut self, failure: Failure) {
        self.take(Draft::Whole(Err(failure)));
        self.has_ended = true;
    }

    fn take(&mut self, draft: Draft) {
        if !self.has_ended {
            self.drafts.push(draft);
        }
    }
}
