//! Who generates.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::{Failure, FailureKind, ModelId, Passage, Text, Turn};

/// Generates answers.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The name it is configured under, and its model's.
    fn model(&self) -> ModelId;

    /// Answers a request: `Started` first, signs of life if it takes its time, then text, reasoning, tool calls
    /// and usage, then one `Finish` or one failure, and nothing after it. Dropping the stream aborts the call.
    fn stream(&self, request: Arc<Request>) -> ModelStream;

    /// Waits until it can tell how long texts are for it and what it keeps: a model in the process has to be loaded
    /// first. Most can at once, and one that will never be able to does not wait either.
    async fn ready(&self) {}

    /// How many tokens of passages it can be given with these instructions and this question; none if they are
    /// too long by themselves.
    fn room(&self, request: &Request) -> Option<usize>;

    /// How many tokens a text has for it, or a few more.
    fn count_tokens(&self, text: &str) -> usize;

    /// Whether it would answer now. Bounded in time by the provider itself.
    async fn health(&self) -> Result<(), Failure>;

    /// What is known of it without asking it.
    fn status(&self) -> ProviderStatus {
        ProviderStatus::default()
    }
}

/// What is known of a provider without a call to it. A diagnostic: no behaviour depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderStatus {
    /// The result of the last health check; none if none runs.
    pub health: Option<Result<(), Failure>>,
    /// The circuit breaker is open: only a probe now and then reaches the provider.
    pub breaker_open: bool,
    /// Time left until the provider is called again, after a `Retry-After` or a run of failures.
    pub skipped_for: Option<Duration>,
    /// Why the last call failed, if it did.
    pub last_failure: Option<Failure>,
    /// The prefix cache, if the provider has one.
    pub prefix_cache: Option<PrefixCacheStats>,
    /// The background prefill of the catalog, if the provider runs one.
    pub warmup: Option<WarmupProgress>,
}

/// Counters of a prefix cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixCacheStats {
    /// Prefixes and passages that were in the cache when a prompt needed them.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes in files.
    pub disk_bytes: u64,
    /// Passages queued for background prefill because a prompt lacked them.
    pub pending: u64,
}

/// Progress of the background prefill of a catalog's passages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmupProgress {
    /// Passages examined so far.
    pub done: u64,
    /// Passages in the catalog.
    pub total: u64,
    /// Passages of `done` that had to be computed; the others were cached, or cannot be.
    pub prefilled: u64,
    /// Why no further passage is prefilled, if something prevents it.
    pub paused: Option<String>,
}

impl ProviderStatus {
    /// Whether requests reach the provider.
    pub fn takes_requests(&self) -> bool {
        !self.breaker_open && self.skipped_for.is_none()
    }
}

/// What a provider sends.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, Failure>>;

/// A step of a provider's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider took the request.
    Started(ModelId),
    /// A sign of life before the answer begins: the prompt waits its turn, or is being read. It is not told on.
    Waiting,
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
    /// What was found, best first. All of it fits: whoever makes the request asked for the room.
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

/// What a chat template adds to each message, on the safe side.
const TOKENS_PER_MESSAGE: usize = 8;

impl Request {
    /// How long the answer may be in a window of so many tokens: at most half of it.
    pub fn answer_tokens(&self, window: usize) -> u32 {
        self.max_tokens.min(u32::try_from(window / 2).unwrap_or(u32::MAX))
    }

    /// What a window of so many tokens leaves for passages, with instructions, question and answer in it; none
    /// if these are too long by themselves.
    pub fn room(&self, window: usize, count: impl Fn(&str) -> usize) -> Option<usize> {
        let needed = message(&self.system, &count) + message(&self.question, &count);
        (window - self.answer_tokens(window) as usize).checked_sub(needed)
    }

    /// The newest turns that fit into a window of so many tokens, with room left for the answer. Instructions,
    /// passages and question must fit.
    pub fn fit(&self, window: usize, count: impl Fn(&str) -> usize) -> Result<&[Turn], Failure> {
        let passages: usize = self.passages.iter().map(|passage| passage.tokens(&count)).sum();
        let room = self.room(window, &count).and_then(|room| room.checked_sub(passages));
        let mut room = room.ok_or_else(|| {
            let needed = message(&self.system, &count) + message(&self.question, &count) + passages;
            let room = window - self.answer_tokens(window) as usize;
            Failure::new(
                FailureKind::TooLong,
                format!(
                    "the question takes about {needed} tokens and the model's window has room for {room}: \
                     shorten it, or use a model with a larger window (context_window)",
                ),
            )
        })?;
        let mut take = |cost: usize| room.checked_sub(cost).map(|left| room = left).is_some();
        let turns = self.history.iter().rev();
        let turns =
            turns.take_while(|turn| take(message(&turn.question, &count) + message(&turn.answer, &count)));
        Ok(&self.history[self.history.len() - turns.count()..])
    }
}

impl Passage {
    /// How many tokens it takes in a prompt, with its number, title and place.
    pub fn tokens(&self, count: impl Fn(&str) -> usize) -> usize {
        let place = self.file_path.as_deref().or(self.url.as_deref());
        count(&self.title) + place.map_or(0, &count) + message(&self.text, &count)
    }
}

fn message(text: &str, count: impl Fn(&str) -> usize) -> usize {
    count(text) + TOKENS_PER_MESSAGE
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
        assert_eq!(all.len(), 3);
        let two = request.fit(100, str::len).unwrap();
        assert_eq!(two, [turn("newer"), turn("newest")]);
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
