//! Who generates.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::{Failure, FailureKind, Model, Passage, Text, Turn};

/// Generates answers.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The name it is configured under, and its model's.
    fn model(&self) -> Model;

    /// Answers a request: `Started` first, then text, reasoning, tool calls and usage, then one `Finish`
    /// or one failure, and nothing after it. Dropping the stream aborts the call.
    fn stream(&self, request: Arc<Request>) -> ModelStream;

    /// Whether it would answer now. Bounded in time by the provider itself.
    async fn health(&self) -> Result<(), Failure>;
}

/// What a provider sends.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, Failure>>;

/// A step of a provider's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider took the request.
    Started(Model),
    /// A token of the answer; never empty.
    Text(Text),
    /// A token of the model's reasoning; never empty.
    Reasoning(Text),
    /// A whole tool call.
    ToolCall(ToolCall),
    /// The provider's own count.
    Usage(Usage),
    /// The end.
    Finish(FinishReason),
}

/// The model wants a tool called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id for it; empty if it gives none.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments: a JSON object, as text.
    pub arguments: String,
}

/// Tokens as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of the prompt.
    pub input: Option<u64>,
    /// Of the answer.
    pub output: Option<u64>,
    /// Of the prompt, not read anew.
    pub cached: Option<u64>,
}

/// Why a model stopped by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It had said everything.
    Stop,
    /// It reached a bound on length.
    Length,
    /// It wants tools called.
    ToolCalls,
    /// The provider's content filter stepped in.
    Filtered,
}

/// What a provider is asked. Instructions, passages, history and question stay apart until the provider
/// renders them, so that no text of a document can pass for an instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The instructions.
    pub system: String,
    /// What was found, best first.
    pub passages: Vec<Passage>,
    /// The conversation so far, oldest first.
    pub history: Vec<Turn>,
    /// What is asked.
    pub question: String,
    /// The answer ends there.
    pub max_tokens: u32,
    /// 0 is the most likely answer.
    pub temperature: f32,
}

/// The part of a request that fits a model's window.
#[derive(Debug, PartialEq)]
pub struct Fitted<'a> {
    /// The best passages.
    pub passages: &'a [Passage],
    /// The newest turns.
    pub history: &'a [Turn],
}

/// What a chat template adds to each message, on the safe side.
const TOKENS_PER_MESSAGE: usize = 8;

impl Request {
    /// How long the answer may be in a window of so many tokens: at most half of it.
    pub fn answer_tokens(&self, window: usize) -> u32 {
        self.max_tokens.min(u32::try_from(window / 2).unwrap_or(u32::MAX))
    }

    /// Fits the request into a window of so many tokens, with room left for the answer. Instructions and
    /// question must fit; then come passages, best first, then turns, newest first.
    pub fn fit(&self, window: usize, count: impl Fn(&str) -> usize) -> Result<Fitted<'_>, Failure> {
        let message = |text: &str| count(text) + TOKENS_PER_MESSAGE;
        let answer = self.answer_tokens(window) as usize;
        let needed = message(&self.system) + message(&self.question);
        let Some(mut room) = (window - answer).checked_sub(needed) else {
            return Err(Failure::new(
                FailureKind::TooLong,
                format!(
                    "the question takes about {needed} tokens and the model's window has room for {}: \
                     shorten it, or use a model with a larger window (context_window)",
                    window - answer
                ),
            ));
        };
        let mut take = |cost: usize| room.checked_sub(cost).map(|left| room = left).is_some();
        let heading =
            |passage: &Passage| count(&passage.title) + passage.file_path.as_deref().map_or(0, &count);
        let passages = self
            .passages
            .iter()
            .take_while(|passage| take(heading(passage) + message(&passage.text)))
            .count();
        let turns = self
            .history
            .iter()
            .rev()
            .take_while(|turn| take(message(&turn.question) + message(&turn.answer)))
            .count();
        Ok(Fitted {
            passages: &self.passages[..passages],
            history: &self.history[self.history.len() - turns..],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(words: &str) -> Turn {
        Turn { question: words.to_owned(), answer: words.to_owned() }
    }

    #[test]
    fn the_newest_turns_stay_when_the_window_is_small() {
        let request = Request {
            question: "q".repeat(10),
            history: vec![turn("old"), turn("newer"), turn("newest")],
            max_tokens: 20,
            ..Request::default()
        };
        let all = request.fit(200, str::len).unwrap();
        assert_eq!(all.history.len(), 3);
        let two = request.fit(100, str::len).unwrap();
        assert_eq!(two.history, [turn("newer"), turn("newest")]);
    }

    #[test]
    fn a_question_larger_than_the_window_is_too_long() {
        let request = Request { question: "q".repeat(100), max_tokens: 2048, ..Request::default() };
        let failure = request.fit(100, str::len).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TooLong);
        assert!(failure.message.contains("room for 50"), "{}", failure.message);
        assert_eq!((request.answer_tokens(100), request.answer_tokens(8192)), (50, 2048));
    }
}
