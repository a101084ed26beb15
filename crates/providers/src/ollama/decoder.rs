//! Decodes `/api/chat` responses: a JSON object per line, the last one with `done: true`.

use domain::{FinishReason, ToolCall, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::decode::{AnswerDecoder, EventQueue, Lines, RawText};
use crate::http::ErrorBody;

/// The decoder of Ollama's chat API.
#[derive(Default)]
pub(super) struct OllamaDecoder {
    lines: Lines,
    frames: Frames,
}

impl AnswerDecoder for OllamaDecoder {
    fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            match self.lines.next(&mut bytes) {
                Ok(Some(line)) => {
                    if let Err(error) = self.frames.take(&line) {
                        self.frames.events.fail_at_frame(&error);
                    }
                }
                Ok(None) => break,
                Err(too_large) => {
                    self.frames.events.fail_at_size(too_large);
                    break;
                }
            }
        }
        self.frames.events.freeze();
    }

    fn finish(&mut self, reason: &str) {
        // A last line that cannot be parsed was cut, which `break_off` reports.
        let _ = self.lines.last().map(|line| self.frames.take(&line));
        self.frames.events.break_off(reason);
        self.frames.events.freeze();
    }

    fn events(&mut self) -> &mut EventQueue {
        &mut self.frames.events
    }
}

/// The frames decoded so far.
#[derive(Default)]
struct Frames {
    events: EventQueue,
    /// The previous frame, if it has a timestamp: only then is an identical frame a repetition.
    previous: Vec<u8>,
}

impl Frames {
    fn take(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        if line.trim_ascii().is_empty() || line == self.previous {
            return Ok(());
        }
        let frame: FrameWire<'_> = serde_json::from_slice(line)?;
        self.previous.clear();
        if frame.created_at.is_some() {
            self.previous.extend_from_slice(line);
        }
        if frame.error.is_some() {
            self.events.fail_with(&ErrorBody::parse(line));
            return Ok(());
        }
        if let Some(message) = frame.message {
            self.take_message(message);
        }
        if frame.done {
            let (input, output) = (frame.prompt_eval_count, frame.eval_count);
            if input.is_some() || output.is_some() {
                self.events.usage(Usage { input, output, cached: None });
            }
            let is_cut = frame.done_reason.as_deref() == Some("length");
            self.events.finish(if is_cut { FinishReason::Length } else { FinishReason::Stop });
        }
        Ok(())
    }

    fn take_message(&mut self, message: MessageWire<'_>) {
        if let Some(thinking) = message.thinking {
            self.events.reasoning(&thinking.0);
        }
        if let Some(content) = message.content {
            self.events.text(&content.0);
        }
        for ToolCallWire { id, function } in message.tool_calls.into_iter().flatten() {
            self.events.tool_call(ToolCall {
                id: id.unwrap_or_default(),
                name: function.name,
                arguments: function.arguments.map_or("{}", RawValue::get).to_owned(),
            });
        }
    }
}

#[derive(Deserialize)]
struct FrameWire<'a> {
    created_at: Option<IgnoredAny>,
    #[serde(borrow)]
    message: Option<MessageWire<'a>>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct MessageWire<'a> {
    #[serde(borrow)]
    content: Option<RawText<'a>>,
    #[serde(borrow)]
    thinking: Option<RawText<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCallWire<'a>>>,
}

#[derive(Deserialize)]
struct ToolCallWire<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: FunctionWire<'a>,
}

#[derive(Deserialize)]
struct FunctionWire<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests;
