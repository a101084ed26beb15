//! The queue of decoded events. The texts of one read share one buffer.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use domain::{Failure, FailureKind, FinishReason, ModelEvent, Text, ToolCall, Usage};

use super::lines::{FrameTooLarge, MAX_FRAME};
use super::utf8::Utf8Joiner;
use crate::http::ErrorBody;

/// Upper bound on the tool calls of one answer.
pub(crate) const MAX_TOOL_CALLS: usize = 128;

/// Turns the bytes of an answer into events.
pub(crate) trait AnswerDecoder: Default + Send + Unpin + 'static {
    /// Decodes the bytes of one read.
    fn feed(&mut self, bytes: &[u8]);

    /// Ends the answer: decodes the rest. `reason` says why no more bytes come, for the failure of an answer that is
    /// incomplete.
    fn finish(&mut self, reason: &str);

    /// The events decoded so far.
    fn events(&mut self) -> &mut EventQueue;
}

/// Decoded events, in order. Everything after the end, a `Finish` or a failure, is dropped.
#[derive(Default)]
pub(crate) struct EventQueue {
    text: Utf8Joiner,
    reasoning: Utf8Joiner,
    buffer: String,
    drafts: Vec<Draft>,
    ready: VecDeque<Result<ModelEvent, Failure>>,
    tool_calls: usize,
    has_content: bool,
    has_ended: bool,
}

/// An event of the read that is being decoded. Its text is a range of the growing buffer.
enum Draft {
    Text(Range<usize>),
    Reasoning(Range<usize>),
    Whole(Result<ModelEvent, Failure>),
}

impl EventQueue {
    /// Adds the text of a frame; an event only if it completes a character.
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        let start = self.buffer.len();
        self.text.push(bytes, &mut self.buffer);
        self.draft(Draft::Text, start);
    }

    /// Adds the reasoning of a frame; an event only if it completes a character.
    pub(crate) fn reasoning(&mut self, bytes: &[u8]) {
        let start = self.buffer.len();
        self.reasoning.push(bytes, &mut self.buffer);
        self.draft(Draft::Reasoning, start);
    }

    /// Adds a complete tool call.
    pub(crate) fn tool_call(&mut self, call: ToolCall) {
        self.tool_calls += 1;
        if self.tool_calls > MAX_TOOL_CALLS {
            self.fail(format!("made more than {MAX_TOOL_CALLS} tool calls"));
            return;
        }
        self.has_content = true;
        self.take(Draft::Whole(Ok(ModelEvent::ToolCall(call))));
    }

    /// Adds the provider's own token counts.
    pub(crate) fn usage(&mut self, usage: Usage) {
        self.take(Draft::Whole(Ok(ModelEvent::Usage(usage))));
    }

    /// Ends the answer well. Some servers say `stop` although the model called tools.
    pub(crate) fn finish(&mut self, reason: FinishReason) {
        let calls_tools = reason == FinishReason::Stop && self.tool_calls > 0;
        let reason = if calls_tools { FinishReason::ToolCalls } else { reason };
        self.take(Draft::Whole(Ok(ModelEvent::Finish(reason))));
        self.has_ended = true;
    }

    /// Ends the answer with a failure: `Unavailable`, which allows fallback, while it has no content, else `Died`.
    pub(crate) fn fail(&mut self, message: impl Into<String>) {
        let kind = if self.has_content { FailureKind::Died } else { FailureKind::Unavailable };
        self.end(Failure::new(kind, message));
    }

    /// Ends the answer with an error that the server reported in the stream.
    pub(crate) fn fail_with(&mut self, error: &ErrorBody) {
        let message = format!("reported an error: {}", error.message);
        if error.is_too_long() && !self.has_content {
            self.end(Failure::new(FailureKind::TooLong, message));
        } else {
            self.fail(message);
        }
    }

    /// Ends an answer whose stream stopped before its end.
    pub(crate) fn break_off(&mut self, reason: &str) {
        self.fail(if self.has_content {
            format!("the answer broke off: {reason}")
        } else {
            format!("no answer came: {reason}; check base_url and the provider's kind")
        });
    }

    /// Ends the answer because of an oversized frame.
    pub(crate) fn fail_at_size(&mut self, _: FrameTooLarge) {
        self.fail(format!("sent a frame of more than {MAX_FRAME} bytes"));
    }

    /// Ends the answer because of a frame that is not the expected JSON.
    pub(crate) fn fail_at_frame(&mut self, error: &serde_json::Error) {
        self.fail(format!(
            "sent a frame that is not the JSON we expect ({error}): check base_url and the provider's kind"
        ));
    }

    /// Makes the events of one read available to [`next`](Self::next).
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

    /// Takes the next event.
    pub(crate) fn next(&mut self) -> Option<Result<ModelEvent, Failure>> {
        self.ready.pop_front()
    }

    /// Whether the next event is the `Finish`.
    pub(crate) fn is_at_finish(&self) -> bool {
        matches!(self.ready.front(), Some(Ok(ModelEvent::Finish(_))))
    }

    /// Whether no event can follow those that are available.
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
