//! Decodes chat completion chunks, sent as server-sent events. An answer ends with `[DONE]`, or with the stream after a
//! finish reason; the usage comes between the two.

use std::fmt;
use std::marker::PhantomData;

use domain::{FinishReason, Usage};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::duplicates::Duplicates;
use super::tool_calls::{ToolCallAssembler, ToolCallWire};
use crate::decode::{AnswerDecoder, EventQueue, RawText, Sse, SseMessage};
use crate::http::ErrorBody;

/// The decoder of OpenAI's chat API.
#[derive(Default)]
pub(super) struct OpenAiDecoder {
    sse: Sse,
    frames: Frames,
}

impl AnswerDecoder for OpenAiDecoder {
    fn feed(&mut self, bytes: &[u8]) {
        let fed = self.sse.feed(bytes, |message| {
            if let Err(error) = self.frames.take(&message) {
                self.frames.events.fail_at_frame(&error);
            }
        });
        if let Err(too_large) = fed {
            self.frames.events.fail_at_size(too_large);
        }
        self.frames.events.freeze();
    }

    fn finish(&mut self, reason: &str) {
        // A last message that cannot be parsed was cut, which `break_off` reports.
        let _ = self.sse.finish(|message| {
            let _ = self.frames.take(&message);
        });
        if self.frames.finish_reason.is_some() {
            self.frames.end();
        } else {
            self.frames.events.break_off(reason);
        }
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
    duplicates: Duplicates,
    tool_calls: ToolCallAssembler,
    usage: Option<Usage>,
    finish_reason: Option<FinishReason>,
}

impl Frames {
    fn take(&mut self, message: &SseMessage<'_>) -> Result<(), serde_json::Error> {
        let data = message.data.trim_ascii();
        if data.is_empty() || self.duplicates.has_seen(message.id, data) {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.end();
            return Ok(());
        }
        if message.is_error {
            self.events.fail_with(&ErrorBody::parse(data));
            return Ok(());
        }
        let frame: FrameWire<'_> = serde_json::from_slice(data)?;
        if frame.error.is_some() || frame.object.is_some_and(|object| *object.0 == *b"error") {
            self.events.fail_with(&ErrorBody::parse(data));
            return Ok(());
        }
        if self.duplicates.has_passed(frame.sequence_number) {
            return Ok(());
        }
        if let Some(First(Some(choice))) = frame.choices {
            self.take_choice(choice);
        }
        if let Some(usage) = frame.usage {
            self.usage = Some(usage.into());
        }
        Ok(())
    }

    fn take_choice(&mut self, choice: ChoiceWire<'_>) {
        if let Some(delta) = choice.delta {
            // Some servers send the same text under both names.
            let reasoning_content = delta.reasoning_content.filter(|reasoning| !reasoning.0.is_empty());
            if let Some(reasoning) = reasoning_content.or(delta.reasoning) {
                self.events.reasoning(&reasoning.0);
            }
            if let Some(content) = delta.content {
                self.events.text(&content.0);
            }
            for piece in delta.tool_calls.into_iter().flatten() {
                if self.tool_calls.add(&piece).is_err() {
                    self.events.fail("made tool calls with too many or too long arguments");
                }
            }
        }
        self.finish_reason = match choice.finish_reason.as_ref().map(|reason| &*reason.0) {
            None | Some(b"") => return,
            Some(b"length") => Some(FinishReason::Length),
            Some(b"content_filter") => Some(FinishReason::Filtered),
            Some(b"tool_calls" | b"function_call") => Some(FinishReason::ToolCalls),
            Some(_) => Some(FinishReason::Stop),
        };
        self.finish_tool_calls();
    }

    fn finish_tool_calls(&mut self) {
        for call in self.tool_calls.complete() {
            self.events.tool_call(call);
        }
    }

    fn end(&mut self) {
        self.finish_tool_calls();
        if let Some(usage) = self.usage.take() {
            self.events.usage(usage);
        }
        self.events.finish(self.finish_reason.unwrap_or(FinishReason::Stop));
    }
}

#[derive(Deserialize)]
struct FrameWire<'a> {
    #[serde(borrow)]
    object: Option<RawText<'a>>,
    #[serde(borrow)]
    choices: Option<First<ChoiceWire<'a>>>,
    usage: Option<UsageWire>,
    error: Option<IgnoredAny>,
    sequence_number: Option<u64>,
}

#[derive(Deserialize)]
struct ChoiceWire<'a> {
    #[serde(borrow)]
    delta: Option<DeltaWire<'a>>,
    #[serde(borrow)]
    finish_reason: Option<RawText<'a>>,
}

#[derive(Deserialize)]
struct DeltaWire<'a> {
    #[serde(borrow)]
    content: Option<RawText<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<RawText<'a>>,
    #[serde(borrow)]
    reasoning: Option<RawText<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCallWire<'a>>>,
}

#[derive(Deserialize)]
struct UsageWire {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptTokensWire>,
}

#[derive(Deserialize)]
struct PromptTokensWire {
    cached_tokens: Option<u64>,
}

impl From<UsageWire> for Usage {
    fn from(wire: UsageWire) -> Self {
        Self {
            input: wire.prompt_tokens,
            output: wire.completion_tokens,
            cached: wire.prompt_tokens_details.and_then(|details| details.cached_tokens),
        }
    }
}

/// The first element of a list. Requests ask for one choice, so this saves allocating a list.
struct First<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let first = list.next_element()?;
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }
}

#[cfg(test)]
mod tests;
